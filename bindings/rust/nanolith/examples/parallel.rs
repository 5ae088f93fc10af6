//! Several conversations at once, all of them after the same records: the engine answers them in batches, and one thread
//! is enough.
//!
//!     cargo run --example parallel [MODEL_FOLDER]
#![forbid(unsafe_code)]

use nanolith::{Cache, EncodeFlags, Engine, EngineOptions, Generation, GenerationOptions, Level, Result, Tokenizer};

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
    let system = engine.prefill(&tokenizer.encode(SYSTEM, EncodeFlags::ADD_BOS)?, Level::SYSTEM, &[])?;
    let records = engine.prefill(&tokenizer.encode(RECORDS, EncodeFlags::NONE)?, Level::CONTEXT, &[&system])?;
    let context = engine.cache(&[&system, &records], &Default::default())?;

    let generations: Result<Vec<_>> = QUESTIONS.iter().map(|question| begin(&context, &tokenizer, question)).collect();
    for (question, mut generation) in QUESTIONS.iter().zip(generations?) {
        println!("{} {}", question, generation.text()?.trim());
    }
    Ok(())
}

/// Asks in a fork, which shares the context's pages. The generation goes on without the fork's handle.
fn begin(context: &Cache, tokenizer: &Tokenizer, question: &str) -> Result<Generation> {
    let question = tokenizer.encode(format!("<|user|> {}<|assistant|>", question), EncodeFlags::NONE)?;
    context.fork()?.generate(&question, &GenerationOptions::new().max_tokens(32))
}
