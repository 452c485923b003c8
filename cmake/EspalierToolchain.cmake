# How the project's own targets are compiled: build type, compiler cache, linker, warnings.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# Line numbers for stack traces without the cost of full debug information; assert stays on.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(ESPALIER_CCACHE ccache)
if(ESPALIER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ESPALIER_CCACHE}")
endif()
find_program(ESPALIER_LLD ld.lld)
if(ESPALIER_LLD)
  add_link_options(-fuse-ld=lld)
endif()

function(espalier_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(ESPALIER_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
