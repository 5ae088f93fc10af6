package nanolith

/*
#include <nanolith/nanolith.h>
#include <stdlib.h>
#include <string.h>

// C memory with the addresses of the texts that lie one after the other in `text`, and after them the texts: Go's own
// memory must not hold such addresses. NULL where there is no memory.
static const char **nanolith_go_contents(const char *text, size_t text_length, const size_t *lengths, size_t count) {
    const char **contents = malloc(count * sizeof *contents + text_length + 1);
    if (contents == NULL) return NULL;
    char *at = (char *)(contents + count);
    memcpy(at, text, text_length);
    for (size_t i = 0; i < count; at += lengths[i++]) contents[i] = at;
    return contents;
}
*/
import "C"

import (
	"strings"
	"unsafe"
)

// Message is one message of a chat. Its content is text and nothing else: special tokens written in it are not read.
type Message struct {
	Role    Role   // whose message it is
	Content string // what it says; what is not valid UTF-8 is read as U+FFFD
}

// RenderedChat is the tokens of a chat, and where each message's part of them ends. Made by [ChatFormat.Render].
type RenderedChat struct {
	Tokens []int32
	// Ends has for each message where its part ends. It begins where the part before it ends, the first one at 0; the
	// generation prompt follows the last one.
	Ends []int
}

// Message gives the tokens of message index, perhaps none: those to prefill a chunk of. It panics, as indexing does,
// where there is no such message.
func (c *RenderedChat) Message(index int) []int32 { return c.Tokens[c.begin(index):c.Ends[index]] }

// From gives the tokens from message index to the end, generation prompt included; after the last message the
// generation prompt alone.
func (c *RenderedChat) From(index int) []int32 { return c.Tokens[c.begin(index):] }

func (c *RenderedChat) begin(index int) int {
	if index == 0 {
		return 0
	}
	return c.Ends[index-1]
}

// ChatFormat is how a chat model wants its messages: with which tokens around them, and in which order. Made by
// [Tokenizer.NewChatFormat].
type ChatFormat struct{ handle *handle }

// NewChatFormat gives the format called name, for example "chatml" or "llama-3"; the library's header lists them. With
// "" it is the model folder's own chat template: ErrNotFound where the folder has none, ErrUnsupported where it has what
// the library can't run. The format keeps the tokenizer alive.
func (t *Tokenizer) NewChatFormat(name string) (*ChatFormat, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return nil, err
	}
	defer t.handle.done()
	var format *C.nl_chat_format
	text, length := chars(name)
	err = check(func() C.nl_status {
		return C.nl_chat_format_create((*C.nl_tokenizer)(pointer), text, length, &format)
	})
	if err != nil {
		return nil, err
	}
	free := func(pointer unsafe.Pointer) { C.nl_chat_format_free((*C.nl_chat_format)(pointer)) }
	return &ChatFormat{newHandle(unsafe.Pointer(format), free, t.handle)}, nil
}

// Close drops the format. It always returns nil, and may be called again.
func (f *ChatFormat) Close() error { return f.handle.close() }

// Name is the format's name.
func (f *ChatFormat) Name() (string, error) {
	pointer, err := f.handle.use()
	if err != nil {
		return "", err
	}
	defer f.handle.done()
	return fillText(32, func(buffer *C.char, capacity C.size_t, length *C.size_t) C.nl_status {
		return C.nl_chat_format_name((*C.nl_chat_format)(pointer), buffer, capacity, length)
	})
}

// Render gives the tokens that the model's own template gives for these messages, at least one. flags is 0 or
// ChatAddGenerationPrompt. ErrInvalidArgument names a message that the format has no place for.
func (f *ChatFormat) Render(messages []Message, flags ChatFlags) (*RenderedChat, error) {
	pointer, err := f.handle.use()
	if err != nil {
		return nil, err
	}
	defer f.handle.done()
	roles := make([]int32, len(messages))
	lengths := make([]C.size_t, len(messages))
	var all strings.Builder
	for i, message := range messages {
		roles[i] = int32(message.Role)
		lengths[i] = C.size_t(len(message.Content))
		all.WriteString(message.Content)
	}
	text, length := chars(all.String())
	role, count := ints(roles)
	contents := C.nanolith_go_contents(text, length, first(lengths), count)
	if contents == nil {
		return nil, &Error{ErrOutOfMemory, "no memory for the texts of a chat", -1, -1, -1}
	}
	defer C.free(unsafe.Pointer(contents))
	ends := make([]C.size_t, len(messages))
	guess := all.Len()/2 + 16*len(messages) + 16
	tokens, err := fill(guess, func(tokens *int32, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_chat_format_render((*C.nl_chat_format)(pointer), role, contents, first(lengths), count,
			C.uint32_t(flags), first(ends), (*C.int32_t)(unsafe.Pointer(tokens)), capacity, needed)
	})
	if err != nil {
		return nil, err
	}
	chat := &RenderedChat{tokens, make([]int, len(messages))}
	for i, end := range ends {
		chat.Ends[i] = int(end)
	}
	return chat, nil
}

// RenderJSON gives the tokens of a chat that is a JSON object with "messages" and, where they are wanted, "tools",
// "documents", "date" and "variables"; the library's header says more. numMessages is how many messages it has, or 0:
// then the answer has no Ends. flags is 0 or ChatAddGenerationPrompt.
func (f *ChatFormat) RenderJSON(request string, numMessages int, flags ChatFlags) (*RenderedChat, error) {
	pointer, err := f.handle.use()
	if err != nil {
		return nil, err
	}
	defer f.handle.done()
	text, length := chars(request)
	ends := make([]C.size_t, numMessages)
	tokens, err := fill(len(request)/2+64, func(tokens *int32, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_chat_format_render_json((*C.nl_chat_format)(pointer), text, length, C.uint32_t(flags), first(ends),
			C.size_t(len(ends)), (*C.int32_t)(unsafe.Pointer(tokens)), capacity, needed)
	})
	if err != nil {
		return nil, err
	}
	chat := &RenderedChat{tokens, make([]int, len(ends))}
	for i, end := range ends {
		chat.Ends[i] = int(end)
	}
	return chat, nil
}
