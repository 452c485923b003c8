# cmake --install: the program, the library with its headers and package files, the CPU plugin and
# the token ranks, laid out as espalier/base/locate.h looks for them.
include(CMakePackageConfigHelpers)

install(TARGETS espalier EXPORT espalierTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET espalier_cli)
  install(TARGETS espalier_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY espalier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY "${espalier_proto_dir}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY "${ESPALIER_DEPS}/pjrt/include/" DESTINATION lib/espalier/include)
install(FILES "${ESPALIER_DEPS}/pjrt/LICENSE" DESTINATION lib/espalier/include)
install(DIRECTORY "${ESPALIER_DEPS}/plugins/cpu" DESTINATION lib/espalier/plugins)
install(FILES "${ESPALIER_DEPS}/text/gpt2.tiktoken" "${ESPALIER_DEPS}/text/gpt2.LICENSE"
  DESTINATION share/espalier/text)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
install(EXPORT espalierTargets NAMESPACE espalier:: DESTINATION ${config_dir})
configure_package_config_file(cmake/espalierConfig.cmake.in
  "${PROJECT_BINARY_DIR}/espalierConfig.cmake" INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/espalierConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/espalierConfig.cmake"
  "${PROJECT_BINARY_DIR}/espalierConfigVersion.cmake" cmake/FindPcre2.cmake
  DESTINATION ${config_dir})
