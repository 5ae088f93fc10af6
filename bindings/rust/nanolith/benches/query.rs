//! What a call costs that does nothing: nanoseconds a query, the best of several runs.

use nanolith::{Engine, EngineFact, EngineOptions};
use std::time::Instant;

fn main() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
    let engine = Engine::load(model, &EngineOptions::new().device("cpu").num_pages(8)).unwrap();
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..100_000 {
            assert_eq!(engine.query(EngineFact::NUM_LAYERS).unwrap(), 6);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / 1e5);
    }
    println!("query: {:.0} ns", best);
}
