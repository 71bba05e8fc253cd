/* A C99 program of the installed package: asks what would run, without a GPU. */
#include <smla/smla.h>
#include <stdio.h>

int main(void) {
  smla_problem problem;
  char why[1024];
  smla_problem_init(&problem);
  problem.heads = 64;
  if (smla_supported(&problem, NULL, "sm_90a", why, sizeof why) != SMLA_SUCCESS) {
    fprintf(stderr, "%s\n", smla_last_error());
    return 1;
  }
  problem.heads = 130;
  if (smla_supported(&problem, NULL, "sm_90a", NULL, 0) != SMLA_NOT_SUPPORTED) return 1;
  printf("smla %s\n%s\n%s\n", smla_version(), why, smla_last_error());
  return 0;
}
