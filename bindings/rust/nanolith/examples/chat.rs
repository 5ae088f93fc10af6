//! Answers two questions from records that are computed once, each with the records in another order.
//!
//!     cargo run --example chat [MODEL_FOLDER]
#![forbid(unsafe_code)]

use nanolith::{
    CacheFact, CacheOptions, Chunk, Composition, EncodeFlags, Engine, EngineOptions, GenerationOptions, Level, Result,
    Tokenizer,
};
use std::io::Write;

const SYSTEM: &str =
    "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";
const RECORDS: [&str; 3] = [
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. \
     Beso Bralm paid exactly 39 crowns.",
    "<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. \
     Jemi Nuld traded in Foham.",
    "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. \
     Boso Polm worked in Jewick.",
];

fn main() -> Result<()> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "examples/model".to_string());
    let engine = Engine::load(model, &EngineOptions::new())?;
    let tokenizer = engine.tokenizer()?;

    let system = engine.prefill(&tokenizer.encode(SYSTEM, EncodeFlags::ADD_BOS)?, Level::SYSTEM, &[])?;
    let mut records = Vec::new();
    for text in RECORDS {
        records.push(engine.prefill(&tokenizer.encode(text, EncodeFlags::NONE)?, Level::CONTEXT, &[])?);
    }

    let first = [&system, &records[0], &records[1], &records[2]];
    ask(&engine, &tokenizer, &first, "Name the place where Boso Polm worked.")?;
    let second = [&system, &records[2], &records[0], &records[1]];
    ask(&engine, &tokenizer, &second, "Name the price that Jemi Nuld offered.")
}

fn ask(engine: &Engine, tokenizer: &Tokenizer, chunks: &[&Chunk], question: &str) -> Result<()> {
    println!("> {}", question);
    let cache = engine.cache(chunks, &CacheOptions::new().composition(Composition::INDEPENDENT))?;
    let question = tokenizer.encode(format!("<|user|> {}<|assistant|>", question), EncodeFlags::NONE)?;
    for piece in cache.generate(&question, &GenerationOptions::new().max_tokens(32))? {
        print!("{}", piece?.text);
        let _ = std::io::stdout().flush();
    }
    println!();
    println!("  reused {} tokens", cache.query(CacheFact::TOKENS_REUSED)?);
    Ok(())
}
