# libsmla.so as its users meet it: the C API test links it, and scripts look at its symbols, headers and package.
target_link_libraries(api_test PRIVATE smla)
add_test(NAME exports COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:smla>
                              ${PROJECT_SOURCE_DIR}/include/smla/smla.h ${CMAKE_NM})
add_test(NAME headers COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/headers.sh ${PROJECT_SOURCE_DIR}/include
                              ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
if(NOT SMLA_SANITIZE)  # a consumer without the sanitizer cannot load a library with it
  add_test(NAME consumers COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/consumers/run.sh ${PROJECT_BINARY_DIR}
                                  ${CMAKE_COMMAND} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
endif()
