add_library(nanolith_warnings INTERFACE)
target_compile_options(nanolith_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Wformat=2 -Wundef>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi>)
# GCC's flow analysis takes the inactive members of a std::variant for uninitialized reads.
target_compile_options(nanolith_warnings INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
# Of sources that are compiled together GCC takes all but the first for headers, which should have no such types.
target_compile_options(nanolith_warnings INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>)
if(NL_WARNINGS_AS_ERRORS)
  target_compile_options(nanolith_warnings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
