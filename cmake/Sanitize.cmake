# Sanitizers go on every target, the tests included: a mixed build reports nonsense.
if(NL_SANITIZE)
  add_compile_options(-fsanitize=${NL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${NL_SANITIZE})
  if(NL_SANITIZE MATCHES "undefined")
    # A null pointer that is used ends the program anyway. Without these two compilers take up to a quarter less time.
    add_compile_options(-fno-sanitize=null,vptr)
  endif()
endif()
