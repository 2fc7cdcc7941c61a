# The functions that every CMakeLists.txt of the repository is written with.
#
#   holdfast_module(<name> SOURCES a.cc ... [DEPS base core ...] [LIBS fmt::fmt ...]
#                   [TESTS a_test.cc ... [TEST_DEPS ...] [TEST_LIBS ...] [TEST_LABELS ...]])
#     Static library holdfast_<name> and, with TESTS, the test binary holdfast_<name>_test.
#   holdfast_test(<name> SOURCES ... [DEPS ...] [LIBS ...] [LABELS ...])
#     A GoogleTest binary; each of its cases becomes a ctest test. The target tests_<label> builds
#     every binary that has the label. Nothing is built without HOLDFAST_TESTS.
#   holdfast_program(<name> SOURCES ... [DEPS ...] [LIBS ...])
#     A program, put at the top of the build folder. Its allocator is jemalloc, except under a
#     sanitizer, which brings its own.
#   holdfast_fuzzer(<name> SOURCES ... [DEPS ...] [LIBS ...])
#     A libFuzzer program, built only with HOLDFAST_FUZZ, below `fuzz/` of the build folder.
#
# DEPS are names of our modules, LIBS are external targets. LABELS are some of unit (the default),
# model, scenario, crash, threaded, integration and e2e.

include(GoogleTest)

# They become parts of the shared client library (HoldfastClientLibrary.cmake).
set(HOLDFAST_CLIENT_MODULES base client)
set(HOLDFAST_CLIENT_PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                               VISIBILITY_INLINES_HIDDEN ON)

set(HOLDFAST_TEST_LABELS unit model scenario crash threaded integration e2e)
foreach(label IN LISTS HOLDFAST_TEST_LABELS)
  add_custom_target(tests_${label})
endforeach()

add_library(holdfast_warnings INTERFACE)
target_compile_options(
  holdfast_warnings
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
            -Wimplicit-fallthrough -Wswitch-enum $<$<BOOL:${HOLDFAST_WERROR}>:-Werror>
            # g++ 12 at -O1 takes moved variants within variants for uninitialised.
            $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

function(_holdfast_configure target visibility)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEPS;LIBS")
  target_include_directories(${target} ${visibility} "${PROJECT_SOURCE_DIR}/src")
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include")
    target_include_directories(${target} ${visibility} "${CMAKE_CURRENT_SOURCE_DIR}/include")
  endif()
  list(TRANSFORM arg_DEPS PREPEND holdfast_)
  target_link_libraries(${target} ${visibility} ${arg_DEPS} ${arg_LIBS})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:holdfast_warnings>)
endfunction()

function(_holdfast_require_sources function)
  if(NOT ARGN)
    message(FATAL_ERROR "${function}: SOURCES is missing")
  endif()
endfunction()

function(holdfast_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" ""
                        "SOURCES;DEPS;LIBS;TESTS;TEST_DEPS;TEST_LIBS;TEST_LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_module(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  _holdfast_require_sources("holdfast_module(${name})" ${arg_SOURCES})
  add_library(holdfast_${name} STATIC ${arg_SOURCES})
  _holdfast_configure(holdfast_${name} PUBLIC DEPS ${arg_DEPS} LIBS ${arg_LIBS})
  if(name IN_LIST HOLDFAST_CLIENT_MODULES)
    set_target_properties(holdfast_${name} PROPERTIES ${HOLDFAST_CLIENT_PROPERTIES})
  endif()
  if(arg_TESTS)
    holdfast_test(holdfast_${name}_test SOURCES ${arg_TESTS} DEPS ${name} ${arg_TEST_DEPS}
                  LIBS ${arg_TEST_LIBS} LABELS ${arg_TEST_LABELS})
  endif()
endfunction()

function(holdfast_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_test(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  _holdfast_require_sources("holdfast_test(${name})" ${arg_SOURCES})
  if(NOT HOLDFAST_TESTS)
    return()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  string(REGEX REPLACE "^holdfast_|_test$" "" prefix "${name}")
  add_executable(${name} ${arg_SOURCES})
  _holdfast_configure(${name} PRIVATE DEPS ${arg_DEPS} LIBS ${arg_LIBS} GTest::gtest_main
                      GTest::gmock)
  gtest_discover_tests(
    ${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${prefix}."
    PROPERTIES TIMEOUT 300)
  # gtest_discover_tests cannot pass on a property that is a list, so labels follow by themselves.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_file}"
       "set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  foreach(label IN LISTS arg_LABELS)
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

function(holdfast_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "holdfast_program(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  _holdfast_require_sources("holdfast_program(${name})" ${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  _holdfast_configure(${name} PRIVATE DEPS ${arg_DEPS} LIBS ${arg_LIBS})
  if(NOT HOLDFAST_SANITIZE AND NOT HOLDFAST_FUZZ)
    target_link_libraries(${name} PRIVATE PkgConfig::jemalloc)
  endif()
endfunction()

if(HOLDFAST_FUZZ)
  add_custom_target(fuzzers)
endif()

function(holdfast_fuzzer name)
  if(NOT HOLDFAST_FUZZ)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBS")
  _holdfast_require_sources("holdfast_fuzzer(${name})" ${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  _holdfast_configure(${name} PRIVATE DEPS ${arg_DEPS} LIBS ${arg_LIBS})
  add_dependencies(fuzzers ${name})
endfunction()
