# cmake -DOUTPUT=file.cpp -DTEMPLATES="a.cuh;b.cuh" -P write_embedded_templates.cmake
# Hexadecimal escapes, 60 bytes a line.
set(text "// Written by cmake/write_embedded_templates.cmake from templates/*.cuh.\n#include \"generator/embedded_templates.h\"\n\nnamespace smla::core {\n\nconst EmbeddedTemplate kEmbeddedTemplates[] = {\n")
foreach(template ${TEMPLATES})
  get_filename_component(name ${template} NAME)
  file(READ ${template} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${hex}")
  # 60 bytes a line
  string(REGEX REPLACE "(................................................................................................................................................................................................................................................)" "\\1\"\n    \"" escaped "${escaped}")
  string(APPEND text "  {\"${name}\",\n    \"${escaped}\"},\n")
endforeach()
string(APPEND text "};\n\nconst std::size_t kEmbeddedTemplateCount = sizeof kEmbeddedTemplates / sizeof *kEmbeddedTemplates;\n\n}  // namespace smla::core\n")
file(WRITE ${OUTPUT}.new "${text}")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
file(REMOVE ${OUTPUT}.new)
