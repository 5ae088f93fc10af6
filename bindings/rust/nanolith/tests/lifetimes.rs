//! Values that are dropped in any order, shared between threads, and made and dropped many times.

use nanolith::*;
use std::future::Future;
use std::ops::ControlFlow;
use std::os::unix::io::AsRawFd;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

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
    is_send_and_sync::<(Engine, Tokenizer, TextStream, Chunk, Cache, Generation, Canceller, Piece)>();
    is_send_and_sync::<(NextPiece<'_>, Statistics, GenerationOptions)>();
    is_send_and_sync::<(ChatFormat, Message<'_>, RenderedChat)>();
    is_send_and_sync::<(EngineOptions, CacheOptions, SamplingOptions, Error)>();
}

#[test]
fn what_an_engine_gave_outlives_it() {
    let engine = load();
    let tokenizer = engine.tokenizer().unwrap();
    let tokens = tokenizer.encode("<|user|> Name the place.", EncodeFlags::ADD_BOS).unwrap();
    let chunk = engine.prefill(&tokens, Level::SYSTEM, &[]).unwrap();
    let cache = engine.cache(&[&chunk], &CacheOptions::new()).unwrap();
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
    let chunk = clone.prefill(&[1, 7, 9], Level::CONTEXT, &[]).unwrap();
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

/// A cache with something to go on from.
fn prompted(engine: &Engine) -> Cache {
    let cache = engine.cache(&[], &CacheOptions::new()).unwrap();
    let tokens = engine.tokenizer().unwrap().encode("<|doc|> Boso Polm", EncodeFlags::ADD_BOS).unwrap();
    cache.extend(&tokens).unwrap();
    cache
}

/// Goes on until somebody ends it: it pauses, and goes on when it is read.
fn endless() -> GenerationOptions {
    GenerationOptions::new().end_tokens(false).buffer_tokens(2)
}

/// Waits until the cache is free: a generation that was dropped ends with its step.
fn truncate(cache: &Cache, length: usize) {
    while let Err(error) = cache.truncate(length) {
        assert_eq!(error.status(), Status::BUSY, "{}", error);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_generation_goes_on_without_what_it_is_from() {
    let engine = load();
    let cache = prompted(&engine);
    let expected = greedy(&cache.fork().unwrap(), 6);
    let mut generation = cache.generate(&[], &GenerationOptions::new().max_tokens(6).end_tokens(false)).unwrap();
    drop((engine, cache));
    let mut tokens = Vec::new();
    for piece in &mut generation {
        tokens.extend(piece.unwrap().tokens);
    }
    assert_eq!((tokens, generation.end()), (expected, EndReason::LENGTH));
    assert!(generation.next().is_none() && generation.next_timeout(Duration::ZERO).unwrap().is_none());
    let statistics = generation.statistics().unwrap();
    assert_eq!(statistics.tokens, 6);
    assert!(statistics.first_token.unwrap() <= statistics.total, "{:?}", statistics);
    let canceller = generation.canceller();
    drop(generation);
    canceller.cancel();
}

#[test]
fn whoever_waits_is_woken_by_a_cancellation() {
    let engine = load();
    let cache = prompted(&engine);
    for round in 0..3 {
        let mut generation = cache.generate(&[], &GenerationOptions::new().end_tokens(false)).unwrap();
        let canceller = generation.canceller().clone();
        let waits = thread::spawn(move || {
            let text = generation.text();
            (text, generation.end())
        });
        thread::sleep(Duration::from_millis(5));
        match round {
            0 => canceller.cancel(),
            1 => cache.cancel().unwrap(),
            _ => engine.cancel().unwrap(),
        }
        let (text, end) = waits.join().unwrap();
        assert_eq!(end, EndReason::CANCELLED, "{:?}", text);
        truncate(&cache, 4);
    }
}

#[test]
fn dropping_a_generation_cancels_it() {
    let engine = load();
    let cache = prompted(&engine);
    let generation = cache.generate(&[], &endless()).unwrap();
    let (canceller, error) = (generation.canceller(), cache.extend(&[7]).unwrap_err());
    assert_eq!(error.status(), Status::BUSY, "{}", error);
    drop(generation);
    truncate(&cache, 4);
    canceller.cancel();
    cache.extend(&[7]).unwrap();
}

#[test]
fn waiting_has_a_limit() {
    let engine = load();
    let cache = prompted(&engine);
    let mut generation = cache.generate(&[7; 900], &GenerationOptions::new().max_tokens(1)).unwrap();
    assert_eq!(generation.next_timeout(Duration::ZERO).unwrap_err().status(), Status::TIMEOUT);
    assert_eq!(generation.end(), EndReason::NONE);
    while generation.next_timeout(Duration::from_secs(60)).unwrap().is_some() {}
    assert_ne!(generation.end(), EndReason::NONE);
}

/// Wakes a thread that sleeps.
struct ThreadWaker(thread::Thread, AtomicUsize);
impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>, wakes: &Arc<ThreadWaker>) -> T {
    let waker = Waker::from(wakes.clone());
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

#[test]
fn a_task_that_waits_is_woken() {
    let engine = load();
    let cache = prompted(&engine);
    let expected = greedy(&cache.fork().unwrap(), 20);
    let wakes = Arc::new(ThreadWaker(thread::current(), AtomicUsize::new(0)));
    let mut generation =
        cache.generate(&[], &GenerationOptions::new().max_tokens(20).end_tokens(false).buffer_tokens(2)).unwrap();
    let mut tokens = Vec::new();
    while let Some(piece) = block_on(generation.next_piece(), &wakes) {
        tokens.extend(piece.unwrap().tokens);
    }
    assert_eq!((tokens, generation.end()), (expected, EndReason::LENGTH));
    assert!(wakes.1.load(Ordering::SeqCst) > 0, "it never waited: nothing is tested here");
    assert!(generation.descriptor().unwrap().as_raw_fd() >= 0);
    // One that is dropped while a thread waits for it.
    truncate(&cache, 4);
    let mut generation = cache.generate(&[7; 900], &endless()).unwrap();
    let waker = Waker::from(wakes);
    let poll = generation.poll_next(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    drop(generation);
    truncate(&cache, 4);
}

#[test]
fn a_generation_that_fails_is_over() {
    let options = EngineOptions::new().device("cpu").threads(1).page_size(16).num_pages(1);
    let engine = Engine::load(MODEL, &options).unwrap();
    let cache = prompted(&engine);
    let mut generation = cache.generate(&[], &GenerationOptions::new().end_tokens(false)).unwrap();
    let results: Vec<_> = generation.by_ref().collect();
    let error = results.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.status(), Status::OUT_OF_PAGES);
    assert_eq!((error.index(), error.needed(), error.available()), (None, Some(1), Some(0)));
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert_eq!(generation.end(), EndReason::ERROR);
    let empty = engine.cache(&[], &CacheOptions::new()).unwrap();
    assert_eq!(decode_step(&[&cache, &empty]).unwrap_err().index(), Some(1));
    let error = empty.generate(&[], &GenerationOptions::new()).err().unwrap();
    assert_eq!(error.status(), Status::INVALID_ARGUMENT);
}

#[test]
fn progress_is_heard_and_cancels() {
    let options = EngineOptions::new().device("cpu").num_pages(8);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let seen = heard.clone();
    let noted = options.clone().progress(move |done| {
        seen.lock().unwrap().push(done);
        ControlFlow::Continue(())
    });
    Engine::load(MODEL, &noted).unwrap();
    assert_eq!(heard.lock().unwrap().last(), Some(&1.0));
    let cancelled = options.clone().progress(|_| ControlFlow::Break(()));
    assert_eq!(Engine::load(MODEL, &cancelled).err().unwrap().status(), Status::CANCELLED);
    let panics = options.progress(|_| std::panic::panic_any("enough"));
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| Engine::load(MODEL, &panics).is_ok())).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"enough"));
}

/// Leaves one token that can be drawn.
fn force(logits: &mut [f32], token: i32) {
    logits.fill(f32::NEG_INFINITY);
    logits[token as usize] = 0.0;
}

fn drawn(generation: &mut Generation) -> Vec<i32> {
    generation.flat_map(|piece| piece.unwrap().tokens).collect()
}

#[test]
fn a_function_changes_logits() {
    let engine = load();
    let cache = prompted(&engine);
    let prompt = cache.tokens().unwrap();
    let vocab_size = engine.query(EngineFact::VOCAB_SIZE).unwrap() as usize;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let options = GenerationOptions::new().max_tokens(4).end_tokens(false).logits(move |tokens, logits| {
        assert_eq!(logits.len(), vocab_size);
        noted.lock().unwrap().push(tokens.to_vec());
        force(logits, 7 + tokens.len() as i32);
        ControlFlow::Continue(())
    });
    let first = prompt.len() as i32 + 7;
    let expected: Vec<_> = (first..first + 4).collect();
    // Two of the same options at once, and one whose logits nobody changes.
    let fork = cache.fork().unwrap();
    let plain = cache.fork().unwrap().generate(&[], &GenerationOptions::new().max_tokens(4)).map(|mut g| drawn(&mut g));
    let mut generations = [cache.generate(&[], &options).unwrap(), fork.generate(&[], &options).unwrap()];
    for generation in &mut generations {
        assert_eq!((drawn(generation), generation.end()), (expected.clone(), EndReason::LENGTH));
    }
    assert_ne!(plain.unwrap(), expected);
    let all = [prompt.clone(), expected].concat();
    let mut seen_by_two: Vec<_> = (prompt.len()..all.len()).map(|count| all[..count].to_vec()).collect();
    seen_by_two = [seen_by_two.clone(), seen_by_two].concat();
    seen_by_two.sort();
    seen.lock().unwrap().sort();
    assert_eq!(*seen.lock().unwrap(), seen_by_two);
    drop((generations, options));
    assert_eq!(Arc::strong_count(&seen), 1, "the function outlived its generations");
    // Each has its own function.
    let fork = cache.fork().unwrap();
    let mut generations: Vec<_> = [(&cache, 500), (&fork, 600)]
        .iter()
        .map(|&(cache, token)| {
            let options = GenerationOptions::new().max_tokens(3).logits(move |_, logits| {
                force(logits, token);
                ControlFlow::Continue(())
            });
            cache.generate(&[], &options).unwrap()
        })
        .collect();
    assert_eq!(drawn(&mut generations[1]), [600; 3]);
    assert_eq!(drawn(&mut generations[0]), [500; 3]);
}

/// Draws 500 twice, and then has the generation end in one of several ways.
fn ending(how: impl Fn(&mut [f32]) -> ControlFlow<()> + Send + Sync + 'static) -> GenerationOptions {
    let calls = AtomicUsize::new(0);
    endless().buffer_tokens(100).logits(move |_, logits| {
        force(logits, 500);
        if calls.fetch_add(1, Ordering::SeqCst) < 2 {
            return ControlFlow::Continue(());
        }
        how(logits)
    })
}

#[test]
fn a_function_of_logits_ends_its_generation() {
    let engine = load();
    let cache = prompted(&engine);
    let mut generation = cache.generate(&[], &ending(|_| ControlFlow::Break(()))).unwrap();
    assert_eq!((drawn(&mut generation), generation.end()), (vec![500; 2], EndReason::CANCELLED));
    truncate(&cache, 4);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let spoils = ending(move |logits| {
            logits[500] = wrong;
            ControlFlow::Continue(())
        });
        let mut generation = cache.generate(&[], &spoils).unwrap();
        let results: Vec<_> = generation.by_ref().collect();
        let error = results.last().unwrap().as_ref().unwrap_err();
        assert_eq!((error.status(), generation.end()), (Status::INVALID_ARGUMENT, EndReason::ERROR), "{}", error);
        assert_eq!(error.index(), (wrong != f32::NEG_INFINITY).then_some(500));
        assert_eq!(results.iter().flatten().flat_map(|piece| piece.tokens.clone()).collect::<Vec<_>>(), [500; 2]);
        truncate(&cache, 4);
    }
}

#[test]
fn a_panic_of_a_function_of_logits_arrives_once() {
    let engine = load();
    let cache = prompted(&engine);
    let wakes = Arc::new(ThreadWaker(thread::current(), AtomicUsize::new(0)));
    for way in 0..3 {
        let mut generation = cache.generate(&[], &ending(|_| std::panic::panic_any("enough"))).unwrap();
        let mut tokens = Vec::new();
        let reads = AssertUnwindSafe(|| loop {
            let piece = match way {
                0 => generation.next().transpose(),
                1 => generation.next_timeout(Duration::from_secs(60)),
                _ => block_on(generation.next_piece(), &wakes).transpose(),
            };
            tokens.extend(piece.unwrap().unwrap().tokens);
        });
        let panic = std::panic::catch_unwind(reads).unwrap_err();
        assert_eq!((panic.downcast_ref(), tokens), (Some(&"enough"), vec![500; 2]));
        assert!(generation.next().is_none() && generation.end() == EndReason::CANCELLED);
        truncate(&cache, 4);
    }
}

#[test]
fn dropping_waits_for_a_function_of_logits() {
    let engine = load();
    let cache = prompted(&engine);
    let (running, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for round in 0..20 {
        let (now, count) = (running.clone(), calls.clone());
        let options = endless().logits(move |_, _| {
            now.fetch_add(1, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(3));
            now.fetch_sub(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        });
        let generation = cache.generate(&[], &options).unwrap();
        thread::sleep(Duration::from_millis(round));
        drop((generation, options));
        assert_eq!(running.load(Ordering::SeqCst), 0, "it still runs");
        assert_eq!(Arc::strong_count(&running), 1, "the function outlived its generation");
        truncate(&cache, 4);
    }
    assert!(calls.load(Ordering::SeqCst) > 0, "it never ran: nothing is tested here");
}

#[test]
fn what_the_library_tells_about_itself() {
    assert!(version_number().unwrap() >= 200 && version().unwrap().contains('.'));
    let page_size = option_bounds_int(EngineOption::PAGE_SIZE.0).unwrap();
    assert_eq!(page_size, Bounds { least: 16, most: 256, standard: 64 });
    let top_p = option_bounds_float(SamplingOption::TOP_P.0).unwrap();
    assert_eq!(top_p, Bounds { least: 1e-30, most: 1.0, standard: 1.0 });
    assert!(describe_options(OptionsKind::GENERATION).unwrap().contains("\"STOP_TEXT\""));
    assert!(describe_facts(FactsKind::CACHE).unwrap().contains("\"PRIVATE_PAGES\""));
    assert!(describe_model(MODEL, DescribeFormat::JSON).unwrap().starts_with('{'));
    let engine = load();
    assert!(engine.describe().unwrap().contains("\"pages_total\":256,"));
    assert!(engine.describe().unwrap().contains("\"tiers\":[{\"tier\":\"device\",\"chunks\":0,"));
    let cache = engine.cache(&[], &CacheOptions::new()).unwrap();
    assert!(cache.describe().unwrap().starts_with("{\"tokens\":0,"));
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
    let chunk = engine.prefill(&[1, 2, 3], Level::SYSTEM, &[]).unwrap();
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
    let chunk = engine.prefill(&prompt, Level::SYSTEM, &[]).unwrap();
    let cache = engine.cache(&[&chunk], &CacheOptions::new()).unwrap();
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
                        engine.cache(&[chunk], &CacheOptions::new()).unwrap()
                    };
                    assert_eq!(&greedy(&mine, 4), expected);
                    let options = GenerationOptions::new().max_tokens(4).end_tokens(false);
                    let pieces: Result<Vec<_>> = cache.fork().unwrap().generate(&[], &options).unwrap().collect();
                    let drawn: Vec<_> = pieces.unwrap().into_iter().flat_map(|piece| piece.tokens).collect();
                    assert_eq!(&drawn, expected);
                    assert_eq!(
                        &tokenizer.encode("<|user|> Name the place.<|assistant|>", EncodeFlags::ADD_BOS).unwrap(),
                        prompt
                    );
                    assert_eq!(&format.render(messages, ChatFlags::NONE).unwrap(), rendered);
                    let other = chunk.retain().unwrap();
                    assert!(other.query(ChunkFact::USERS).unwrap() >= 2);
                    let error = engine.prefill(&[number * 1000 + round + 5000], Level::CONTEXT, &[]).err().unwrap();
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
    let chunk = engine.prefill(&[1, 7, 9], Level::SYSTEM, &[]).unwrap();
    let round = || {
        let mut stream = TextStream::new(&engine.tokenizer().unwrap()).unwrap();
        stream.push(273).unwrap();
        let format = ChatFormat::named(&tokenizer, "plain").unwrap();
        assert_eq!(format.render(&[Message::user("Name")], ChatFlags::NONE).unwrap().ends.len(), 1);
        let again = engine.prefill(&[1, 7, 9], Level::SYSTEM, &[]).unwrap();
        let cache =
            engine.cache(&[&chunk, &again], &CacheOptions::new().composition(Composition::INDEPENDENT)).unwrap();
        cache.set_sampling(&SamplingOptions::new().temperature(1.0)).unwrap();
        let fork = cache.fork().unwrap();
        assert_eq!(fork.tokens().unwrap().len(), 6);
        let generation = fork.generate(&[], &endless()).unwrap();
        assert!(generation.descriptor().is_ok());
        drop(cache.generate(&[7], &endless().logits(|_, _| ControlFlow::Continue(()))));
        assert!(tokenizer.find("no such piece").is_err() && chunk.retain().is_ok());
    };
    assert!(!grows("rounds", 10000, round));
    assert!(!grows("engines", 100, || drop(load())));
    assert!(grows("forgotten streams", 10000, || std::mem::forget(TextStream::new(&tokenizer).unwrap())));
}
