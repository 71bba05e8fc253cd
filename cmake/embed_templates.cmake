# smla_embed_templates(TARGET): compiles the text of templates/*.cuh into TARGET, so that the library needs no file at
# run time.
function(smla_embed_templates target)
  if(NOT TARGET ${target})
    return()
  endif()
  file(GLOB templates CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/templates/*.cuh)
  set(output ${PROJECT_BINARY_DIR}/generated/embedded_templates.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} "-DTEMPLATES=${templates}"
            -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded_templates.cmake
    DEPENDS ${templates} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_templates.cmake
    COMMENT "Embedding templates" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
