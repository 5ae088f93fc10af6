//! One conversation a thread, all of them behind the same records.
//!
//!     cargo run --example parallel [MODEL_FOLDER]
#![forbid(unsafe_code)]

use nanolith::{Cache, EncodeFlags, Engine, EngineOptions, Result, Tokenizer};
use std::thread;

const SYSTEM: &str =
    "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";
const RECORDS: &str = "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on \
    20 September. Beso Bralm paid exactly 39 crowns.<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on \
    7 July. Boso Polm used badge TQ81. Boso Polm worked in Jewick.";
const QUESTIONS: [&str; 4] = [
    "Name the place where Boso Polm worked.",
    "Name the place where Beso Bralm stayed.",
    "Name the day when Beso Bralm arrived.",
    "Name the day when Boso Polm left.",
];

fn main() -> Result<()> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "examples/model".to_string());
    let engine = Engine::load(model, &EngineOptions::new())?;
    let tokenizer = engine.tokenizer()?;
    let system = engine.prefill(&tokenizer.encode(SYSTEM, EncodeFlags::ADD_BOS)?, 0, &[])?;
    let records = engine.prefill(&tokenizer.encode(RECORDS, EncodeFlags::NONE)?, 1, &[&system])?;
    let context = engine.cache(&[&system, &records], Default::default())?;

    let answers = thread::scope(|scope| {
        let mut threads = Vec::new();
        for question in QUESTIONS {
            threads.push(scope.spawn(|| answer(&context, &tokenizer, question)));
        }
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect::<Vec<_>>()
    });
    for (question, answer) in QUESTIONS.iter().zip(answers) {
        println!("{} {}", question, answer?);
    }
    Ok(())
}

/// Asks in a fork, which shares the context's pages.
fn answer(context: &Cache, tokenizer: &Tokenizer, question: &str) -> Result<String> {
    let cache = context.fork()?;
    cache.extend(&tokenizer.encode(format!("<|user|> {}<|assistant|>", question), EncodeFlags::NONE)?)?;
    let text: Result<String> = cache.stream_text(tokenizer, 32)?.collect();
    Ok(text?.trim().to_string())
}
