# Each tests/TIER/NAME_test.cc is one program, TIER_NAME_test, and one test of ctest, TIER.NAME; its
# GoogleTest counts go to build/test-results/TIER.NAME.xml. tests/support/*.cc serve all of them,
# main() included; tests/lint links nothing of the library.
find_package(GTest REQUIRED)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.cc)
add_library(espalier_test_support INTERFACE)
if(support_sources)
  add_library(espalier_test_support_objects STATIC ${support_sources} cli/text_sampler.cc)
  espalier_warnings(espalier_test_support_objects)
  target_link_libraries(espalier_test_support_objects PUBLIC espalier GTest::gtest)
  target_link_libraries(espalier_test_support INTERFACE espalier_test_support_objects)
endif()
target_link_libraries(espalier_test_support INTERFACE espalier GTest::gtest)
target_compile_definitions(espalier_test_support INTERFACE
  ESPALIER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ESPALIER_DEPS="${ESPALIER_DEPS}")
if(support_sources)
  target_compile_definitions(espalier_test_support_objects PRIVATE
    ESPALIER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ESPALIER_DEPS="${ESPALIER_DEPS}")
endif()

# espalier_tests(TIER TIMEOUT_SECONDS [ENVIRONMENT NAME=VALUE...])
function(espalier_tests tier timeout)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" ENVIRONMENT)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${tier}/*_test.cc")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    set(target "${tier}_${name}")
    string(REGEX REPLACE "_test$" "" short "${tier}.${name}")
    add_executable(${target} "${source}")
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    espalier_warnings(${target})
    if(tier STREQUAL "lint")
      target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main)
      target_compile_features(${target} PRIVATE cxx_std_20)
      target_compile_definitions(${target} PRIVATE ESPALIER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    else()
      target_link_libraries(${target} PRIVATE espalier_test_support)
    endif()
    if(tier STREQUAL "parity" OR tier STREQUAL "plugin")
      # These run the real program too.
      target_compile_definitions(${target} PRIVATE ESPALIER_PROGRAM="$<TARGET_FILE:espalier_cli>")
      add_dependencies(${target} espalier_cli)
    endif()
    # Tests are compiled once and run once: the lower level is the faster whole.
    target_compile_options(${target} PRIVATE -O1 -g0)
    add_test(NAME "${short}" COMMAND ${target})
    set_tests_properties("${short}" PROPERTIES
      TIMEOUT ${timeout} LABELS "${tier}"
      ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-results/${short}.xml;${arg_ENVIRONMENT}")
  endforeach()
endfunction()

espalier_tests(lint 60)
espalier_tests(unit 300)
espalier_tests(golden 900 ENVIRONMENT TF_CPP_MIN_LOG_LEVEL=2)
espalier_tests(plugin 900 ENVIRONMENT TF_CPP_MIN_LOG_LEVEL=2)
espalier_tests(parity 1200 ENVIRONMENT TF_CPP_MIN_LOG_LEVEL=2)
