module nanolith

go 1.19
