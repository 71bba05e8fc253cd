# The emulator, a library of its own: kernels run on a CPU for tests and smla-check; never linked into libsmla.so. The
# twin of templates/ptx.cuh is part of the library, so that it needs no file at run time.
smla_room(emulator DEPENDS plan reference generator config problem base)
if(TARGET smla_emulator)
  set(device ${PROJECT_SOURCE_DIR}/src/emulator/device)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${device}/calls.h ${device}/ptx.cuh)
  file(READ ${device}/calls.h SMLA_EMULATOR_CALLS)
  file(READ ${device}/ptx.cuh SMLA_EMULATOR_TWIN)
  configure_file(${PROJECT_SOURCE_DIR}/src/emulator/device_text.h.in
                 ${PROJECT_BINARY_DIR}/generated/emulator/emulator_device_text.h @ONLY)
  target_include_directories(smla_emulator PRIVATE ${PROJECT_BINARY_DIR}/generated/emulator)
endif()
