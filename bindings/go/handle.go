package nanolith

import (
	"runtime"
	"sync"
	"unsafe"
)

// handle owns one handle of the library. It is freed when it is closed and no call is using it, and nothing that was
// made from it (its children) is open any more.
type handle struct {
	free   func(unsafe.Pointer)
	parent *handle

	mutex   sync.Mutex
	pointer unsafe.Pointer
	users   int // calls under way, and children
	closed  bool
}

// newHandle keeps the parent, which may be nil, until the handle is freed. The caller must be using the parent.
func newHandle(pointer unsafe.Pointer, free func(unsafe.Pointer), parent *handle) *handle {
	if parent != nil {
		parent.mutex.Lock()
		parent.users++
		parent.mutex.Unlock()
	}
	h := &handle{pointer: pointer, free: free, parent: parent}
	runtime.SetFinalizer(h, func(h *handle) { h.close() })
	return h
}

// use gives the pointer for one call, to be ended by done.
func (h *handle) use() (unsafe.Pointer, error) {
	if h == nil {
		return nil, ErrClosed
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	h.users++
	return h.pointer, nil
}

func (h *handle) done() {
	h.mutex.Lock()
	h.users--
	last := h.closed && h.users == 0
	h.mutex.Unlock()
	if last {
		h.release()
	}
}

// close never waits, and may be called again.
func (h *handle) close() error {
	if h == nil {
		return nil
	}
	h.mutex.Lock()
	last := !h.closed && h.users == 0
	h.closed = true
	h.mutex.Unlock()
	runtime.SetFinalizer(h, nil)
	if last {
		h.release()
	}
	return nil
}

// release runs once: closed and without users, a handle gets no new ones.
func (h *handle) release() {
	h.free(h.pointer)
	h.pointer = nil
	if h.parent != nil {
		h.parent.done()
	}
}

// useAll is use for several. A nil handle stays NULL, which the library names in its error.
func useAll(handles []*handle) (pointers []unsafe.Pointer, done func(), err error) {
	used := 0
	done = func() {
		for _, h := range handles[:used] {
			if h != nil {
				h.done()
			}
		}
	}
	for _, h := range handles {
		var pointer unsafe.Pointer
		if h != nil {
			if pointer, err = h.use(); err != nil {
				done()
				return nil, nil, err
			}
		}
		used++
		pointers = append(pointers, pointer)
	}
	return pointers, done, nil
}
