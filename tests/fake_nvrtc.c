/* An NVRTC of CUDA 11.8: it knows sm_80 to sm_90 and no suffixes, and compiles nothing. */
#include <stddef.h>

const char* nvrtcGetErrorString(int result) { return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION"; }

int nvrtcVersion(int* major, int* minor) {
  *major = 11;
  *minor = 8;
  return 0;
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
  (void)program, (void)options, (void)words;
  return 6;
}

static int empty_size(void* program, size_t* bytes) {
  (void)program;
  *bytes = 1;
  return 0;
}

static int empty_text(void* program, char* text) {
  (void)program;
  *text = 0;
  return 0;
}

int nvrtcGetProgramLogSize(void* program, size_t* bytes) { return empty_size(program, bytes); }
int nvrtcGetProgramLog(void* program, char* text) { return empty_text(program, text); }
int nvrtcGetCUBINSize(void* program, size_t* bytes) { return empty_size(program, bytes); }
int nvrtcGetCUBIN(void* program, char* text) { return empty_text(program, text); }
int nvrtcGetPTXSize(void* program, size_t* bytes) { return empty_size(program, bytes); }
int nvrtcGetPTX(void* program, char* text) { return empty_text(program, text); }
