# What `cmake --install` installs of the service, and the Debian package that CPack makes of it.
#
#   component server   the program
#   component proto    the .proto files, below share/holdfast/proto: its include root
#   component debian   unit, configuration, log rotation and documentation at the places where
#                      Debian wants them, absolute paths included. Only CPack installs it.
#
# `./dev package` makes build/release/holdfast_<version>_<architecture>.deb of all three.

include(GNUInstallDirs)

install(TARGETS holdfast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT server)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/proto/holdfast" "${PROJECT_SOURCE_DIR}/proto/grpc"
        DESTINATION ${CMAKE_INSTALL_DATADIR}/holdfast/proto COMPONENT proto
        FILES_MATCHING PATTERN "*.proto")

set(deploy "${PROJECT_SOURCE_DIR}/deploy")
set(documents ${CMAKE_INSTALL_DOCDIR})
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/debian")
foreach(page IN ITEMS changelog holdfast.1)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${deploy}/debian/${page}")
  # Without a name and a time in it, so that the same sources give the same file.
  execute_process(COMMAND gzip --best --no-name --stdout "${deploy}/debian/${page}"
                  OUTPUT_FILE "${PROJECT_BINARY_DIR}/debian/${page}.gz"
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()

function(_holdfast_debian destination)
  install(FILES ${ARGN} DESTINATION "${destination}" COMPONENT debian EXCLUDE_FROM_ALL)
endfunction()
_holdfast_debian(/etc/holdfast "${deploy}/holdfast.toml")
_holdfast_debian(/lib/systemd/system "${deploy}/holdfast.service")
install(FILES "${deploy}/debian/logrotate" DESTINATION /etc/logrotate.d RENAME holdfast
        COMPONENT debian EXCLUDE_FROM_ALL)
_holdfast_debian("${documents}" "${deploy}/debian/copyright"
                 "${PROJECT_BINARY_DIR}/debian/changelog.gz" "${PROJECT_SOURCE_DIR}/README.md")
_holdfast_debian(${CMAKE_INSTALL_MANDIR}/man1 "${PROJECT_BINARY_DIR}/debian/holdfast.1.gz")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${documents}"
        COMPONENT debian EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.md")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_CONTACT "The Holdfast maintainers <maintainers@holdfast.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "locks and leaderships with leases and fencing tokens")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL server proto debian)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.51)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS logrotate)
set(CPACK_PACKAGE_DESCRIPTION
    "Holdfast is a coordination service: it hands out bounded, fenced ownership
of locks and leaderships, and gives the protected resources the means to
refuse whoever lost it. Every grant ends by itself and carries a number that
only grows. This package has the server with gRPC, HTTP and RESP, the command
line client, and the protocol files for clients in other languages.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${deploy}/debian/conffiles;${deploy}/debian/postinst;${deploy}/debian/prerm;${deploy}/debian/postrm")
include(CPack)
