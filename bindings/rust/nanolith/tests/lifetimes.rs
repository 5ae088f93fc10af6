//! Values that are dropped in any order, shared between threads, and made and dropped many times.

use nanolith::*;
use std::sync::{Arc, Mutex};
use std::thread;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");

fn load() -> Engine {
    Engine::load(MODEL, &EngineOptions::new().device("cpu").threads(2).page_size(16).num_pages(256)).unwrap()
}

fn greedy(cache: &Cache, count: usize) -> Vec<i32> {
    (0..count).map(|_| decode_step(&[cache]).unwrap()[0]).collect()
}

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn everything_is_send_and_sync() {
    is_send_and_sync::<(Engine, Tokenizer, TextStream, Chunk, Cache, TextPieces<'_>)>();
    is_send_and_sync::<(ChatFormat, Message<'_>, RenderedChat)>();
    is_send_and_sync::<(EngineOptions, CacheOptions, SamplingOptions, Error)>();
}

#[test]
fn what_an_engine_gave_outlives_it() {
    let engine = load();
    let tokenizer = engine.tokenizer().unwrap();
    let tokens = tokenizer.encode("<|user|> Name the place.", EncodeFlags::ADD_BOS).unwrap();
    let chunk = engine.prefill(&tokens, 0, &[]).unwrap();
    let cache = engine.cache(&[&chunk], CacheOptions::new()).unwrap();
    let fork = cache.fork().unwrap();
    let mut stream = TextStream::new(&tokenizer).unwrap();
    drop(engine);
    drop(tokenizer);
    assert_eq!(stream.push(tokens[1]).unwrap() + &stream.finish().unwrap(), "<|user|>");
    assert_eq!(chunk.query(ChunkFact::TOKENS).unwrap() as usize, tokens.len());
    drop(chunk);
    let expected = greedy(&cache, 4);
    drop(cache);
    assert_eq!(greedy(&fork, 4), expected);
}

#[test]
fn chat_formats_outlive_what_they_are_from() {
    let engine = load();
    let tokenizer = engine.tokenizer().unwrap();
    let format = ChatFormat::named(&tokenizer, "plain").unwrap();
    let clone = format.clone();
    let messages = [Message::system("<|system|> Be brief."), Message::user("<|user|> Who?")];
    let expected = format.render(&messages, ChatFlags::NONE).unwrap();
    drop((engine, tokenizer, format));
    assert_eq!(clone.name().unwrap(), "plain");
    assert_eq!(clone.render(&messages, ChatFlags::ADD_GENERATION_PROMPT).unwrap(), expected);
}

#[test]
fn a_rendered_chat_is_the_sum_of_its_messages() {
    let tokenizer = Tokenizer::load(MODEL).unwrap();
    let format = ChatFormat::named(&tokenizer, "plain").unwrap();
    let long = "Boso Polm ".repeat(2000); // more tokens than are guessed at first
    let texts = ["<|system|> Be brief.", &long, "", "<|user|> Who?"];
    let messages: Vec<_> = texts.iter().map(|text| Message::user(*text)).collect();
    let chat = format.render(&messages, ChatFlags::NONE).unwrap();
    assert_eq!(chat.ends.len(), 4);
    assert_eq!((0..4).map(|i| chat.message(i).to_vec()).collect::<Vec<_>>().concat(), chat.tokens);
    assert!(chat.message(2).is_empty() && chat.from_message(4).is_empty());
    assert_eq!(chat.from_message(3), chat.message(3));
    assert_eq!(tokenizer.decode(chat.from_message(0)).unwrap(), texts.concat());
}

#[test]
fn chats_that_cannot_be_had() {
    let tokenizer = Tokenizer::load(MODEL).unwrap();
    let status = |result: Result<ChatFormat>| result.err().unwrap().status();
    assert_eq!(status(ChatFormat::new(&tokenizer)), Status::NOT_FOUND);
    assert_eq!(status(ChatFormat::named(&tokenizer, "no-such")), Status::INVALID_ARGUMENT);
    assert_eq!(status(ChatFormat::named(&tokenizer, "chatml")), Status::UNSUPPORTED);
    let format = ChatFormat::named(&tokenizer, "plain").unwrap();
    for messages in [&[][..], &[Message::new(Role(3), "x")], &[Message::new(Role(-1), "x")]] {
        assert_eq!(format.render(messages, ChatFlags::NONE).unwrap_err().status(), Status::INVALID_ARGUMENT);
    }
    let error = format.render(&[Message::user("x")], ChatFlags(1 << 30)).unwrap_err();
    assert!(error.text().contains("flags"), "{}", error);
}

#[test]
fn clones_are_the_same_value() {
    let engine = load();
    let clone = engine.clone();
    let chunk = clone.prefill(&[1, 7, 9], 1, &[]).unwrap();
    let again = chunk.clone();
    assert_eq!(chunk.query(ChunkFact::USERS).unwrap(), 1);
    let retained = chunk.retain().unwrap();
    assert_eq!(again.query(ChunkFact::USERS).unwrap(), 2);
    drop((chunk, retained));
    assert_eq!(again.query(ChunkFact::USERS).unwrap(), 1);
    drop((engine, clone));
    assert_eq!(again.query(ChunkFact::TOKENS).unwrap(), 3);
}

#[test]
fn errors_carry_status_and_text() {
    let error = Engine::load("/nowhere", &EngineOptions::new()).err().unwrap();
    assert_eq!(error.status(), Status::NOT_FOUND);
    assert_eq!(error.status().to_string(), "NL_ERROR_NOT_FOUND");
    assert!(error.text().contains("/nowhere") && error.to_string() == error.text(), "{}", error);
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.into();
    assert!(boxed.downcast_ref::<Error>().is_some());
}

#[test]
fn a_stream_ends_after_an_error() {
    let options = EngineOptions::new().device("cpu").threads(1).page_size(16).num_pages(8).max_context(20);
    let engine = Engine::load(MODEL, &options).unwrap();
    let cache = engine.cache(&[], CacheOptions::new()).unwrap();
    cache.extend(&[7; 19]).unwrap();
    let results: Vec<_> = cache.stream_text(&engine.tokenizer().unwrap(), 100).unwrap().collect();
    assert_eq!(results.last().unwrap().as_ref().err().unwrap().status(), Status::CONTEXT_FULL);
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
}

#[test]
fn log_lines_arrive_and_panics_in_them_stay() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let options = EngineOptions::new().device("auto").num_pages(8).log(move |severity, line| {
        seen.lock().unwrap().push((severity, line.to_string()));
        std::panic::panic_any("a panic of the log function");
    });
    std::panic::set_hook(Box::new(|_| {}));
    let engine = Engine::load(MODEL, &options).unwrap();
    drop(options);
    let _ = std::panic::take_hook();
    let chunk = engine.prefill(&[1, 2, 3], 0, &[]).unwrap();
    drop(engine);
    drop(chunk);
    // Where there is no GPU the library says that it took the CPU.
    assert!(!lines.lock().unwrap().is_empty());
    assert_eq!(Arc::strong_count(&lines), 1, "the log function outlived its engine");
}

#[test]
fn sixteen_threads_share_everything() {
    let engine = load();
    let tokenizer = engine.tokenizer().unwrap();
    let prompt = tokenizer.encode("<|user|> Name the place.<|assistant|>", EncodeFlags::ADD_BOS).unwrap();
    let chunk = engine.prefill(&prompt, 0, &[]).unwrap();
    let cache = engine.cache(&[&chunk], CacheOptions::new()).unwrap();
    let expected = greedy(&cache.fork().unwrap(), 4);
    let format = ChatFormat::named(&tokenizer, "plain").unwrap();
    let messages = [Message::user("<|user|> Name the place."), Message::assistant("Jewick")];
    let rendered = format.render(&messages, ChatFlags::NONE).unwrap();
    thread::scope(|scope| {
        for number in 0..16 {
            let (engine, tokenizer, chunk, cache, prompt) = (engine.clone(), &tokenizer, &chunk, &cache, &prompt);
            let (format, messages, rendered) = (format.clone(), &messages, &rendered);
            let expected = &expected;
            scope.spawn(move || {
                for round in 0..3 {
                    let mine = if number % 2 == 0 {
                        cache.fork().unwrap()
                    } else {
                        engine.cache(&[chunk], CacheOptions::new()).unwrap()
                    };
                    assert_eq!(&greedy(&mine, 4), expected);
                    assert_eq!(
                        &tokenizer.encode("<|user|> Name the place.<|assistant|>", EncodeFlags::ADD_BOS).unwrap(),
                        prompt
                    );
                    assert_eq!(&format.render(messages, ChatFlags::NONE).unwrap(), rendered);
                    let other = chunk.retain().unwrap();
                    assert!(other.query(ChunkFact::USERS).unwrap() >= 2);
                    let error = engine.prefill(&[number * 1000 + round + 5000], 1, &[]).err().unwrap();
                    assert!(error.text().contains(&(number * 1000 + round + 5000).to_string()), "{}", error);
                }
            });
        }
    });
}

/// What glibc's mallinfo2 tells.
#[repr(C)]
struct HeapInfo {
    _arena: [usize; 4],
    mapped: usize,
    _blocks: [usize; 2],
    given_out: usize,
    _free: [usize; 2],
}

extern "C" {
    fn mallinfo2() -> HeapInfo;
}

fn heap_bytes() -> i64 {
    let info = unsafe { mallinfo2() };
    (info.given_out + info.mapped) as i64
}

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4096
}

/// Whether `count` rounds, after as many to warm up, leave memory behind. What the heap has given out tells nearly
/// exactly; what the process has in memory also shows what is mapped, but varies with the heap's holes and threads. So
/// what leaks is what grows every time: the rest settles.
fn grows(what: &str, count: usize, round: impl Fn()) -> bool {
    (0..count).for_each(|_| round());
    (0..3).all(|_| {
        let (heap, resident) = (heap_bytes(), resident_bytes());
        (0..count).for_each(|_| round());
        let (heap, resident) = (heap_bytes() - heap, resident_bytes() - resident);
        println!("{} {}: heap {} bytes more, resident {} KiB more", count, what, heap, resident / 1024);
        heap >= 64 << 10 || resident >= 32 << 20
    })
}

/// 10,000 rounds of everything but engines, which load a model, and 100 of these; and of what does leak.
#[test]
#[ignore = "takes a while, and looks at the whole process's memory: cargo test -- --ignored"]
fn rounds_leave_no_memory_behind() {
    let engine = load();
    let tokenizer = engine.tokenizer().unwrap();
    let chunk = engine.prefill(&[1, 7, 9], 0, &[]).unwrap();
    let round = || {
        let mut stream = TextStream::new(&engine.tokenizer().unwrap()).unwrap();
        stream.push(273).unwrap();
        let format = ChatFormat::named(&tokenizer, "plain").unwrap();
        assert_eq!(format.render(&[Message::user("Name")], ChatFlags::NONE).unwrap().ends.len(), 1);
        let again = engine.prefill(&[1, 7, 9], 0, &[]).unwrap();
        let cache = engine.cache(&[&chunk, &again], CacheOptions::new().composition(Composition::INDEPENDENT)).unwrap();
        cache.set_sampling(SamplingOptions::new().temperature(1.0)).unwrap();
        let fork = cache.fork().unwrap();
        assert_eq!(fork.tokens().unwrap().len(), 6);
        assert!(tokenizer.find("no such piece").is_err() && chunk.retain().is_ok());
    };
    assert!(!grows("rounds", 10000, round));
    assert!(!grows("engines", 100, || drop(load())));
    assert!(grows("forgotten streams", 10000, || std::mem::forget(TextStream::new(&tokenizer).unwrap())));
}
