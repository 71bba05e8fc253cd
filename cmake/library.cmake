# libsmla.so: the C API over the rooms, and what an installed package needs. The static rooms are not installed.
file(READ ${PROJECT_SOURCE_DIR}/include/smla/smla.h header)
foreach(part MAJOR MINOR PATCH)
  if(NOT header MATCHES "#define SMLA_VERSION_${part} ${PROJECT_VERSION_${part}}\n")
    message(FATAL_ERROR "include/smla/smla.h and project(VERSION ${PROJECT_VERSION}) disagree about ${part}")
  endif()
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/smla/smla.h)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/api/*.cpp)
add_library(smla SHARED ${sources})
add_library(smla::smla ALIAS smla)
target_include_directories(smla PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(smla PRIVATE $<BUILD_INTERFACE:smla_flags> $<BUILD_INTERFACE:smla_plan>)
# Until version 1 every minor version may break the binary interface, so that it is part of the SONAME.
set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(smla PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                      LINK_DEPENDS ${exports})
# nodelete: kernels stay loaded, and a handler for fork stays registered, for as long as the process lives.
target_link_options(smla PRIVATE -Wl,--version-script=${exports} -Wl,-z,nodelete)
if(NOT SMLA_SANITIZE)
  target_link_options(smla PRIVATE -Wl,--no-undefined)
endif()

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smla)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/smlaConfig.cmake.in ${PROJECT_BINARY_DIR}/smlaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/smlaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH SMLA_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # "../.." or longer
string(REGEX REPLACE "/$" "" SMLA_PC_TO_PREFIX ${SMLA_PC_TO_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/smla.pc.in ${PROJECT_BINARY_DIR}/smla.pc @ONLY)

install(TARGETS smla EXPORT smla LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT smla)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/smla DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT smla)
install(EXPORT smla NAMESPACE smla:: FILE smlaTargets.cmake DESTINATION ${package_dir} COMPONENT smla)
install(FILES ${PROJECT_BINARY_DIR}/smlaConfig.cmake ${PROJECT_BINARY_DIR}/smlaConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT smla)
install(FILES ${PROJECT_BINARY_DIR}/smla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT smla)
