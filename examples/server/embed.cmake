# Writes the files of FOLDER into the C++ source OUT, as page.h declares them: cmake -D FOLDER=... -D OUT=... -P embed.cmake
set(source "#include \"page.h\"\n\nnamespace server {\n\nconst PageFile kPageFiles[4] = {\n")
foreach(entry "index.html|/|text/html; charset=utf-8" "style.css|/page/style.css|text/css; charset=utf-8"
              "page.js|/page/page.js|text/javascript; charset=utf-8" "icon.svg|/page/icon.svg|image/svg+xml")
  string(REPLACE "|" "@" entry "${entry}")
  string(REGEX MATCH "^([^@]*)@([^@]*)@(.*)$" matched "${entry}")
  set(path "${CMAKE_MATCH_2}")
  set(type "${CMAKE_MATCH_3}")
  file(READ "${FOLDER}/${CMAKE_MATCH_1}" text)
  string(APPEND source "    {\"${path}\", \"${type}\", R\"page~(${text})page~\"},\n")
endforeach()
string(APPEND source "};\n\n}  // namespace server\n")
file(WRITE "${OUT}" "${source}")
