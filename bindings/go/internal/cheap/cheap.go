// Package cheap looks at the C heap, for the tests, which cannot call C themselves.
package cheap

// #include <malloc.h>
import "C"

// Bytes is how many bytes the C heap has given out.
func Bytes() int {
	info := C.mallinfo2()
	return int(info.uordblks) + int(info.hblkhd)
}
