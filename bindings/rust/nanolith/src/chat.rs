use crate::{ffi, ChatFlags, Result, Role, Tokenizer};
use nanolith_sys as sys;
use std::ops::BitOr;
use std::os::raw::c_char;
use std::sync::Arc;

/// How a chat model wants its messages: with which tokens around them, and in which order. Clones are cheap and mean
/// the same format.
///
/// ```
/// use nanolith::{ChatFlags, ChatFormat, Message};
///
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/text/fixtures/qwen2");
/// let tokenizer = nanolith::Tokenizer::load(model)?;
/// let format = ChatFormat::named(&tokenizer, "chatml")?;
/// let messages = [Message::system("You answer briefly."), Message::user("Who lit the lamp?")];
/// let chat = format.render(&messages, ChatFlags::ADD_GENERATION_PROMPT)?;
/// assert_eq!(tokenizer.piece(chat.message(0)[0])?, "<|im_start|>");
/// assert_eq!(tokenizer.piece(chat.message(1)[0])?, "<|im_start|>");
/// assert_eq!(tokenizer.decode(chat.from_message(2))?, "assistant\n"); // the generation prompt
/// # Ok::<(), nanolith::Error>(())
/// ```
#[derive(Clone)]
pub struct ChatFormat {
    handle: Arc<ChatFormatHandle>,
}

struct ChatFormatHandle {
    raw: *mut sys::nl_chat_format,
    _tokenizer: Tokenizer, // dropped after the format is freed
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for ChatFormatHandle {}
unsafe impl Sync for ChatFormatHandle {}

impl Drop for ChatFormatHandle {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_chat_format_free(self.raw) }
    }
}

/// One message of a chat: whose it is, and what it says. The text is borrowed, and need not be valid UTF-8: what isn't
/// is read as U+FFFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Whose message it is.
    pub role: Role,
    /// What it says: text and nothing else. Special tokens written in it are not read.
    pub content: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message of a role.
    pub fn new(role: Role, content: &'a (impl AsRef<[u8]> + ?Sized)) -> Message<'a> {
        Message { role, content: content.as_ref() }
    }

    /// A system prompt.
    pub fn system(content: &'a (impl AsRef<[u8]> + ?Sized)) -> Message<'a> {
        Message::new(Role::SYSTEM, content)
    }

    /// A message of the user: a question, or a document.
    pub fn user(content: &'a (impl AsRef<[u8]> + ?Sized)) -> Message<'a> {
        Message::new(Role::USER, content)
    }

    /// An earlier answer of the model.
    pub fn assistant(content: &'a (impl AsRef<[u8]> + ?Sized)) -> Message<'a> {
        Message::new(Role::ASSISTANT, content)
    }
}

impl ChatFlags {
    /// The messages alone.
    pub const NONE: ChatFlags = ChatFlags(0);
}

impl BitOr for ChatFlags {
    type Output = ChatFlags;
    fn bitor(self, other: ChatFlags) -> ChatFlags {
        ChatFlags(self.0 | other.0)
    }
}

/// The tokens of a chat, and where each message's part of them ends. Made by [`ChatFormat::render`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedChat {
    /// All tokens.
    pub tokens: Vec<i32>,
    /// For each message, where its part ends. It begins where the part before it ends, the first one at 0; the
    /// generation prompt follows the last one.
    pub ends: Vec<usize>,
}

impl RenderedChat {
    /// The tokens of message `index`, perhaps none: those to prefill a chunk of. Panics where there is no such message.
    pub fn message(&self, index: usize) -> &[i32] {
        &self.tokens[self.begin(index)..self.ends[index]]
    }

    /// The tokens from message `index` to the end, generation prompt included; after the last message the generation
    /// prompt alone. Panics where there are fewer messages.
    pub fn from_message(&self, index: usize) -> &[i32] {
        &self.tokens[self.begin(index)..]
    }

    fn begin(&self, index: usize) -> usize {
        if index == 0 {
            0
        } else {
            self.ends[index - 1]
        }
    }
}

impl ChatFormat {
    /// The chat template of the model folder that the tokenizer is from. An error with
    /// [`Status::NOT_FOUND`](crate::Status::NOT_FOUND) where the folder has no template, and with
    /// [`Status::UNSUPPORTED`](crate::Status::UNSUPPORTED) where it has what the library can't run.
    pub fn new(tokenizer: &Tokenizer) -> Result<ChatFormat> {
        ChatFormat::named(tokenizer, "")
    }

    /// The format called `name`, for example "chatml" or "llama-3"; the library's header lists them. The empty name is
    /// the model's own format.
    pub fn named(tokenizer: &Tokenizer, name: &str) -> Result<ChatFormat> {
        // SAFETY: the name goes with its length.
        let raw = ffi::create(|format| unsafe {
            sys::nl_chat_format_create(tokenizer.raw(), name.as_ptr().cast(), name.len(), format)
        })?;
        Ok(ChatFormat { handle: Arc::new(ChatFormatHandle { raw, _tokenizer: tokenizer.clone() }) })
    }

    /// The format's name.
    pub fn name(&self) -> Result<String> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill_text(32, |buffer, capacity, length| unsafe {
            sys::nl_chat_format_name(self.handle.raw, buffer, capacity, length)
        })
    }

    /// The tokens that the model's own template gives for these messages, at least one. An error with
    /// [`Status::INVALID_ARGUMENT`](crate::Status::INVALID_ARGUMENT) names a message that the format has no place for.
    pub fn render(&self, messages: &[Message<'_>], flags: ChatFlags) -> Result<RenderedChat> {
        let roles: Vec<i32> = messages.iter().map(|message| message.role.0).collect();
        let contents: Vec<*const c_char> = messages.iter().map(|message| message.content.as_ptr().cast()).collect();
        let lengths: Vec<usize> = messages.iter().map(|message| message.content.len()).collect();
        let mut ends = vec![0; messages.len()];
        let ends_begin = ends.as_mut_ptr();
        let guess = lengths.iter().sum::<usize>() / 2 + 16 * messages.len() + 16;
        // SAFETY: the four arrays have an element for each message, and the buffer has the given capacity.
        let tokens = ffi::fill(guess, |tokens, capacity, count| unsafe {
            let (roles, contents, lengths) = (roles.as_ptr(), contents.as_ptr(), lengths.as_ptr());
            let (format, num_messages) = (self.handle.raw, messages.len());
            sys::nl_chat_format_render(
                format,
                roles,
                contents,
                lengths,
                num_messages,
                flags.0,
                ends_begin,
                tokens,
                capacity,
                count,
            )
        })?;
        Ok(RenderedChat { tokens, ends })
    }

    /// The tokens of a chat that is a JSON object with "messages" and, where they are wanted, "tools", "documents",
    /// "date" and "variables"; the library's header says more. `num_messages` is how many messages it has, or 0: then
    /// the answer knows no ends.
    pub fn render_json(&self, request: &str, num_messages: usize, flags: ChatFlags) -> Result<RenderedChat> {
        let mut ends = vec![0; num_messages];
        let ends_begin = ends.as_mut_ptr();
        // SAFETY: the request goes with its length, and so do the two arrays.
        let tokens = ffi::fill(request.len() / 2 + 64, |tokens, capacity, count| unsafe {
            let (text, length) = (request.as_ptr().cast(), request.len());
            let format = self.handle.raw;
            sys::nl_chat_format_render_json(
                format,
                text,
                length,
                flags.0,
                ends_begin,
                num_messages,
                tokens,
                capacity,
                count,
            )
        })?;
        Ok(RenderedChat { tokens, ends })
    }
}
