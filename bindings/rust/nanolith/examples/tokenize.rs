//! Shows the tokens of a text.
//!
//!     cargo run --example tokenize [MODEL_FOLDER [TEXT]]
#![forbid(unsafe_code)]

use nanolith::{EncodeFlags, Result, Tokenizer};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or_else(|| "examples/model".to_string());
    let text =
        arguments.next().unwrap_or_else(|| "<|user|> Name the place where Boso Polm worked: Zürich?".to_string());

    let tokenizer = Tokenizer::load(model)?;
    let tokens = tokenizer.encode(text, EncodeFlags::ADD_BOS)?;
    for &token in &tokens {
        println!("{} {}", token, tokenizer.piece(token)?);
    }
    println!("{}", tokenizer.decode(&tokens)?);
    Ok(())
}
