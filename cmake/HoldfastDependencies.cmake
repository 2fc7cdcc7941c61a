# Every external package, all from Debian 12. docs/DEPENDENCIES.md says what each is for.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
# Debian ships no config file for protobuf; gRPC's config file expects its targets to exist.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(Boost 1.81 REQUIRED)  # headers only
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(rapidcheck CONFIG REQUIRED)
find_package(benchmark CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET GLOBAL hiredis)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET GLOBAL prometheus-cpp-core)
pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET GLOBAL jemalloc)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
