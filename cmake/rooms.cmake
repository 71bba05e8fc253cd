# Flags that every target of ours gets.
add_library(smla_flags INTERFACE)
target_compile_options(smla_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(SMLA_WARNINGS_AS_ERRORS)
  target_compile_options(smla_flags INTERFACE -Werror)
endif()
if(SMLA_SANITIZE)
  target_compile_options(smla_flags INTERFACE -fsanitize=${SMLA_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -g)
  target_link_options(smla_flags INTERFACE -fsanitize=${SMLA_SANITIZE})
endif()

# smla_room(NAME [DEPENDS room...]): the static library smla_NAME from src/NAME/*.cpp. A room without sources is no
# target.
function(smla_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(smla_${name} STATIC ${sources})
  target_include_directories(smla_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(smla_${name} PUBLIC fmt::fmt PRIVATE $<BUILD_INTERFACE:smla_flags>
                        nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
  foreach(room ${ROOM_DEPENDS})
    if(TARGET smla_${room})
      target_link_libraries(smla_${name} PUBLIC smla_${room})
    endif()
  endforeach()
endfunction()
