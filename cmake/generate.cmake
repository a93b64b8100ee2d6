# The API generator: everything made from api/spec lands in ${CMAKE_BINARY_DIR}/generated.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
