# Compiler-wide settings: optimisation per build type, sanitizers, the linker and ccache.

set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HOLDFAST_CCACHE ccache)
  if(HOLDFAST_CCACHE)
    # Paths below the source folder are hashed relative to it, so that every build folder and
    # every clone shares one cache.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        "${HOLDFAST_CCACHE}")
  endif()
endif()

find_program(HOLDFAST_LLD ld.lld)
if(HOLDFAST_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(HOLDFAST_PLANTED_BUGS)
  add_compile_definitions(HOLDFAST_PLANTED_BUGS=1)
endif()

if(HOLDFAST_SANITIZE)
  add_compile_options("-fsanitize=${HOLDFAST_SANITIZE}" -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${HOLDFAST_SANITIZE}")
  if(HOLDFAST_SANITIZE MATCHES "address")
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
  endif()
  # Asio has a fence beside its mutexes, which ThreadSanitizer does not see; the mutexes it does.
  if(HOLDFAST_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
    # Debian's protobuf is built without it, and its classes have another layout with it.
    add_compile_options(-U__SANITIZE_THREAD__)
  endif()
endif()

if(HOLDFAST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HOLDFAST_FUZZ needs clang (libFuzzer): use the preset `fuzz`")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address)
endif()
