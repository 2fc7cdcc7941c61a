# The C++ client library as others use it, component `client` of `cmake --install`:
#
#   libholdfast_client.so     the modules client, base and proto in one library; only what the
#                             installed headers declare is visible
#   include/holdfast/*.h      nothing in them but the standard library and each other
#   find_package(holdfast)    target holdfast::client
#   holdfast-client.pc        the same for pkg-config

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/client_library.cc" CONTENT "")
add_library(holdfast_client_library SHARED "${CMAKE_CURRENT_BINARY_DIR}/client_library.cc")
set_target_properties(
  holdfast_client_library
  PROPERTIES OUTPUT_NAME holdfast_client EXPORT_NAME client VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(holdfast_client_library
                      PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,holdfast_client>)
target_compile_features(holdfast_client_library INTERFACE cxx_std_20)

install(TARGETS holdfast_client_library EXPORT holdfast
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(module IN ITEMS base client)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/${module}/include/holdfast"
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
install(EXPORT holdfast FILE holdfastTargets.cmake NAMESPACE holdfast::
        DESTINATION ${package_folder} COMPONENT client)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfig.cmake"
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/holdfastTargets.cmake\")\n")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/holdfastConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfigVersion.cmake"
        DESTINATION ${package_folder} COMPONENT client)

# The prefix is where the file lies, wherever that is.
file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/holdfast-client.pc"
     "prefix=\${pcfiledir}/${to_prefix}\n"
     "includedir=\${prefix}${CMAKE_INSTALL_INCLUDEDIR}\n"
     "libdir=\${prefix}${CMAKE_INSTALL_LIBDIR}\n\n"
     "Name: holdfast-client\n"
     "Description: Client of the coordination service Holdfast\n"
     "Version: ${PROJECT_VERSION}\n"
     "Cflags: -I\${includedir}\n"
     "Libs: -L\${libdir} -lholdfast_client\n")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfast-client.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
