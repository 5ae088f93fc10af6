//! A chat as a list of messages, split into chunks along them: the system prompt and each document are messages of
//! their own, computed for the first question and found in the store by the second.
//!
//!     cargo run --example messages [MODEL_FOLDER [FORMAT]]
#![forbid(unsafe_code)]

use nanolith::{
    CacheOptions, ChatFlags, ChatFormat, ChunkFact, Composition, Engine, EngineOptions, GenerationOptions, Level,
    Message, Result, Role, Status, Tokenizer,
};
use std::io::Write;

const MESSAGES: [(Role, &str); 3] = [
    (Role::SYSTEM, "Each document is one record. Answer each question from the records, in as few words as possible."),
    (
        Role::USER,
        "Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. \
         Boso Polm paid exactly 50 crowns.",
    ),
    (
        Role::USER,
        "Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. \
         Beso Bralm paid exactly 39 crowns.",
    ),
];
const QUESTIONS: [&str; 2] = ["Name the key that Beso Bralm got.", "Name the place where Boso Polm stayed."];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or_else(|| "examples/model".to_string());
    let engine = Engine::load(model, &EngineOptions::new())?;
    let tokenizer = engine.tokenizer()?;
    let (format, own_marks) = open_format(&tokenizer, arguments.next().unwrap_or_default())?;
    println!("The chat format is {}", format.name()?);
    for question in QUESTIONS {
        ask(&engine, &format, own_marks, question)?;
    }
    Ok(())
}

/// The named format, or the model's. The model in examples/model has marks of its own, which no format here knows: then
/// the messages are taken as they are, and the caller writes the marks.
fn open_format(tokenizer: &Tokenizer, name: String) -> Result<(ChatFormat, bool)> {
    match ChatFormat::named(tokenizer, &name) {
        Err(error) if name.is_empty() && [Status::NOT_FOUND, Status::UNSUPPORTED].contains(&error.status()) => {
            eprintln!("{}", error);
            Ok((ChatFormat::named(tokenizer, "plain")?, true))
        }
        format => Ok((format?, false)),
    }
}

fn ask(engine: &Engine, format: &ChatFormat, own_marks: bool, question: &str) -> Result<()> {
    println!("\n> {}", question);
    let mut contents = MESSAGES.map(|(_, text)| text.to_string()).to_vec();
    contents.push(question.to_string());
    if own_marks {
        for (content, mark) in contents.iter_mut().zip(["<|system|> ", "<|doc|> ", "<|doc|> ", "<|user|> "]) {
            content.insert_str(0, mark);
        }
        contents[3].push_str("<|assistant|>");
    }
    let roles = MESSAGES.iter().map(|(role, _)| *role).chain([Role::USER]);
    let messages: Vec<_> = roles.zip(&contents).map(|(role, content)| Message::new(role, content)).collect();
    let chat = format.render(&messages, ChatFlags::ADD_GENERATION_PROMPT)?;

    // All messages but the last become chunks. Those without tokens have none: their text is in a later message's part.
    let last = messages.len() - 1;
    let mut chunks = Vec::new();
    for (i, message) in messages[..last].iter().enumerate().filter(|(i, _)| !chat.message(*i).is_empty()) {
        let level = if message.role == Role::SYSTEM { Level::SYSTEM } else { Level::CONTEXT };
        let chunk = engine.prefill(chat.message(i), level, &[])?;
        let found = chunk.query(ChunkFact::TOKENS_COMPUTED)? == 0;
        let how = if found { "found in the store" } else { "computed" };
        println!("  message {}: {} tokens, {}", i + 1, chat.message(i).len(), how);
        chunks.push(chunk);
    }
    let chunks: Vec<_> = chunks.iter().collect();
    let cache = engine.cache(&chunks, &CacheOptions::new().composition(Composition::INDEPENDENT))?;
    for piece in cache.generate(chat.from_message(last), &GenerationOptions::new().max_tokens(48))? {
        print!("{}", piece?.text);
        let _ = std::io::stdout().flush();
    }
    println!();
    Ok(())
}
