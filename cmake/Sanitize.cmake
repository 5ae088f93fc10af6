# Sanitizers go on every target, the tests included: a mixed build reports nonsense.
if(NL_SANITIZE)
  add_compile_options(-fsanitize=${NL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${NL_SANITIZE})
endif()
