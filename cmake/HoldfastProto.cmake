# holdfast_proto_module(<name> ROOT <include root of the .proto files>
#                       PROTOS holdfast/v1/a.proto ... [SERVICES holdfast/v1/b.proto ...])
#   Generated code as static library holdfast_<name>: messages for PROTOS, messages and gRPC stubs
#   for SERVICES. Generated headers count as system headers, so our warnings do not apply to them.
#   The target `generated` makes the sources without compiling them, which is all that lint needs.

add_custom_target(generated)

function(holdfast_proto_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ROOT" "PROTOS;SERVICES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_ROOT)
    message(FATAL_ERROR "holdfast_proto_module(${name}): bad arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${out}")
  set(sources "")
  # They import each other, so a change in one may change the code of all.
  list(TRANSFORM arg_PROTOS PREPEND "${arg_ROOT}/" OUTPUT_VARIABLE proto_files)
  list(TRANSFORM arg_SERVICES PREPEND "${arg_ROOT}/" OUTPUT_VARIABLE service_files)
  foreach(proto IN LISTS arg_PROTOS arg_SERVICES)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(outputs "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(flags "--cpp_out=${out}")
    if(proto IN_LIST arg_SERVICES)
      list(APPEND outputs "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h")
      list(APPEND flags "--grpc_out=${out}"
           "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>")
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc "--proto_path=${arg_ROOT}" ${flags} "${proto}"
      DEPENDS ${proto_files} ${service_files}
      COMMENT "Generating ${stem}.pb"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_custom_target(generated_${name} DEPENDS ${sources})
  add_dependencies(generated generated_${name})
  add_library(holdfast_${name} STATIC ${sources})
  set_target_properties(holdfast_${name} PROPERTIES ${HOLDFAST_CLIENT_PROPERTIES})
  add_dependencies(holdfast_${name} generated_${name})
  target_include_directories(holdfast_${name} SYSTEM PUBLIC "${out}")
  target_compile_options(holdfast_${name} PRIVATE -w -O1)
  target_link_libraries(holdfast_${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
endfunction()
