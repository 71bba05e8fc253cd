/* An NVRTC that knows sm_80 to sm_90 and no suffixes. It is of CUDA 11.8 and compiles nothing, unless the
   environment says otherwise:
     SMLA_FAKE_NVRTC_VERSION  "12.9": what nvrtcVersion says
     SMLA_FAKE_NVRTC_WORDS    a file that gets the options of every compilation, one a line
     SMLA_FAKE_NVRTC_IMAGE    a file whose bytes every compilation results in
     SMLA_FAKE_NVRTC_LOG      the log of every compilation */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* nvrtcGetErrorString(int result) { return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION"; }

int nvrtcVersion(int* major, int* minor) {
  const char* version = getenv("SMLA_FAKE_NVRTC_VERSION");
  *major = 11;
  *minor = 8;
  return version == NULL || sscanf(version, "%d.%d", major, minor) == 2 ? 0 : 3;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 4;
  return 0;
}

int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 86;
  archs[2] = 89;
  archs[3] = 90;
  return 0;
}

int nvrtcCreateProgram(void** program, const char* text, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
  (void)text, (void)name, (void)headers, (void)texts, (void)names;
  *program = NULL;
  return 0;
}

int nvrtcDestroyProgram(void** program) {
  *program = NULL;
  return 0;
}

int nvrtcCompileProgram(void* program, int options, const char* const* words) {
  const char* file = getenv("SMLA_FAKE_NVRTC_WORDS");
  (void)program;
  if (file != NULL) {
    FILE* to = fopen(file, "w");
    if (to == NULL) return 3;
    for (int i = 0; i < options; ++i) fprintf(to, "%s\n", words[i]);
    fclose(to);
  }
  return getenv("SMLA_FAKE_NVRTC_IMAGE") != NULL ? 0 : 6;
}

static const char* log_text(void) {
  const char* text = getenv("SMLA_FAKE_NVRTC_LOG");
  return text != NULL ? text : "";
}

int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = strlen(log_text()) + 1;
  return 0;
}

int nvrtcGetProgramLog(void* program, char* text) {
  (void)program;
  strcpy(text, log_text());
  return 0;
}

/* Returns the size, and the bytes where `to` is not null. */
static size_t image_bytes(char* to) {
  const char* file = getenv("SMLA_FAKE_NVRTC_IMAGE");
  FILE* from = file != NULL ? fopen(file, "r") : NULL;
  size_t bytes = 0;
  int byte;
  if (from == NULL) return 0;
  while ((byte = fgetc(from)) != EOF) {
    if (to != NULL) to[bytes] = (char)byte;
    ++bytes;
  }
  fclose(from);
  return bytes;
}

int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = image_bytes(NULL);
  return 0;
}

int nvrtcGetCUBIN(void* program, char* image) {
  (void)program;
  image_bytes(image);
  return 0;
}

int nvrtcGetPTXSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = 1;
  return 0;
}

int nvrtcGetPTX(void* program, char* text) {
  (void)program;
  *text = 0;
  return 0;
}
