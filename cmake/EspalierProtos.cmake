# Generates C++ from espalier/**/*.proto into ${espalier_proto_dir}, laid out like the sources, so
# that a header is included as "espalier/pjrt/proto/NAME.pb.h". Sets espalier_proto_sources.
set(espalier_proto_dir "${PROJECT_BINARY_DIR}/proto")
set(espalier_proto_sources)
file(MAKE_DIRECTORY "${espalier_proto_dir}")
file(GLOB_RECURSE espalier_protos CONFIGURE_DEPENDS
  RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/espalier/*.proto")
foreach(proto IN LISTS espalier_protos)
  string(REGEX REPLACE "\\.proto$" ".pb" stem "${espalier_proto_dir}/${proto}")
  # Protos import one another, so each waits for all.
  add_custom_command(
    OUTPUT "${stem}.h" "${stem}.cc"
    COMMAND protobuf::protoc "--proto_path=${PROJECT_SOURCE_DIR}"
            "--cpp_out=${espalier_proto_dir}" "${proto}"
    DEPENDS ${espalier_protos}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "protoc ${proto}" VERBATIM)
  set_source_files_properties("${stem}.cc" PROPERTIES COMPILE_OPTIONS "-w")
  list(APPEND espalier_proto_sources "${stem}.cc" "${stem}.h")
endforeach()
