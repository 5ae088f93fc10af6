package nanolith

// #include <nanolith/nanolith.h>
import "C"

import "unsafe"

// Chunk is a prefilled span of tokens; immutable. Made by [Engine.Prefill].
type Chunk struct{ handle *handle }

func newChunk(chunk *C.nl_chunk, engine *handle) *Chunk {
	free := func(pointer unsafe.Pointer) { C.nl_chunk_free((*C.nl_chunk)(pointer)) }
	return &Chunk{newHandle(unsafe.Pointer(chunk), free, engine)}
}

func chunkHandles(chunks []*Chunk) []*handle {
	handles := make([]*handle, len(chunks))
	for i, chunk := range chunks {
		if chunk != nil {
			handles[i] = chunk.handle
		}
	}
	return handles
}

// Close drops the handle. It always returns nil, and may be called again.
func (c *Chunk) Close() error { return c.handle.close() }

// Retain gives a second handle for the same chunk, to be closed on its own.
func (c *Chunk) Retain() (*Chunk, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	var again *C.nl_chunk
	if err := check(func() C.nl_status { return C.nl_chunk_retain((*C.nl_chunk)(pointer), &again) }); err != nil {
		return nil, err
	}
	return newChunk(again, c.handle.parent), nil
}

// Save saves the chunk with its keys and values to the file at path, for [Engine.LoadChunk]. The file is whole or not
// there.
func (c *Chunk) Save(path string) error {
	pointer, err := c.handle.use()
	if err != nil {
		return err
	}
	defer c.handle.done()
	text, length := chars(path)
	return check(func() C.nl_status { return C.nl_chunk_save((*C.nl_chunk)(pointer), text, length) })
}

// SetPriority sets the chunk's priority: when pages run short, unused chunks of lower priority are evicted first within
// their level. A chunk with PriorityPinned is never evicted; other priorities are from PriorityLowest to PriorityHighest.
func (c *Chunk) SetPriority(priority Priority) error {
	pointer, err := c.handle.use()
	if err != nil {
		return err
	}
	defer c.handle.done()
	return check(func() C.nl_status { return C.nl_chunk_set_priority((*C.nl_chunk)(pointer), C.int32_t(priority)) })
}

// Query gives a fact about the chunk.
func (c *Chunk) Query(fact ChunkFact) (int64, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return 0, err
	}
	defer c.handle.done()
	var value C.int64_t
	err = check(func() C.nl_status { return C.nl_chunk_query((*C.nl_chunk)(pointer), C.int32_t(fact), &value) })
	return int64(value), err
}
