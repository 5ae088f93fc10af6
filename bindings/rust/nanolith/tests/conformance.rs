//! Runs tests/bindings/conformance/scenarios.txt; its language is described beside it. Prints "scenario NAME ok" for
//! each. NANOLITH_WORK names the folder of models that tests/bindings/run.sh makes.

use nanolith::*;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

enum Failure {
    Library(Error),
    Scenario(String),
    Impossible, // what this language can't say
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

type Outcome<T> = std::result::Result<T, Failure>;

#[derive(Default)]
struct State {
    engine: Option<Engine>,
    tokenizer: Option<Tokenizer>,
    format: Option<ChatFormat>,
    tokens: HashMap<String, Vec<i32>>,
    chunks: HashMap<String, Chunk>,
    caches: HashMap<String, Cache>,
    generations: HashMap<String, Generation>,
    error: Option<Error>, // of the latest error line
}

fn unquote(text: &str) -> String {
    String::from_utf8_lossy(&unquote_bytes(text)).into_owned()
}

fn unquote_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' && after.len() >= 2 {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
            rest = &after[2..];
        } else {
            if text != "%" {
                bytes.push(first);
            }
            rest = after;
        }
    }
    bytes
}

fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => quoted.push(byte as char),
            _ if b"<>|/_.,:-@~".contains(&byte) => quoted.push(byte as char),
            _ => write!(quoted, "%{:02X}", byte).unwrap(),
        }
    }
    if quoted.is_empty() {
        quoted.push('%');
    }
    quoted
}

fn number<T: std::str::FromStr>(word: &str) -> Outcome<T> {
    word.parse().map_err(|_| Failure::Scenario(format!("{} is no number", word)))
}

fn words<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

fn folder(word: &str) -> String {
    let work = std::env::var("NANOLITH_WORK").unwrap_or_default();
    let path = unquote(word).replace("@model", &format!("{}/examples/model", ROOT)).replace("@work", &work);
    path.replace("@text", &format!("{}/tests/text/fixtures", ROOT))
}

fn get<'a, T>(map: &'a HashMap<String, T>, name: &str) -> Outcome<&'a T> {
    map.get(name).ok_or_else(|| Failure::Scenario(format!("{} is not there", name)))
}

/// Leaves one token that can be drawn.
fn forcing(options: GenerationOptions, token: usize) -> GenerationOptions {
    options.logits(move |_, logits| {
        logits.fill(f32::NEG_INFINITY);
        logits[token] = 0.0;
        ControlFlow::Continue(())
    })
}

impl State {
    fn engine(&self) -> Outcome<&Engine> {
        self.engine.as_ref().ok_or_else(|| Failure::Scenario("no engine".to_string()))
    }

    fn tokenizer(&self) -> Outcome<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| Failure::Scenario("no tokenizer".to_string()))
    }

    fn format(&self) -> Outcome<&ChatFormat> {
        self.format.as_ref().ok_or_else(|| Failure::Scenario("no format".to_string()))
    }

    /// The first word has the flags; then come a role and a content for each message.
    fn render(&self, a: &[&str]) -> Outcome<RenderedChat> {
        let contents: Vec<Vec<u8>> = a[1..].chunks(2).map(|pair| unquote_bytes(pair[1])).collect();
        let mut messages = Vec::new();
        for (pair, content) in a[1..].chunks(2).zip(&contents) {
            messages.push(Message::new(Role(number(pair[0])?), content));
        }
        Ok(self.format()?.render(&messages, ChatFlags(number(a[0])?))?)
    }

    /// Renders a chat that is a JSON object. `a` has the flags, the number of messages and the object.
    fn render_json(&self, a: &[&str]) -> Outcome<RenderedChat> {
        Ok(self.format()?.render_json(&unquote(a[2]), number(a[1])?, ChatFlags(number(a[0])?))?)
    }

    fn several<'a, T>(map: &'a HashMap<String, T>, names: &[&str]) -> Outcome<Vec<&'a T>> {
        names.iter().map(|name| get(map, name)).collect()
    }

    fn load(&mut self, settings: &[&str]) -> Outcome<()> {
        let mut model = String::new();
        let mut options = EngineOptions::new();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            match key {
                "model" => model = folder(value),
                "device" => options = options.device(value),
                "dtype" => options = options.dtype(Dtype(number(value)?)),
                "page_size" => options = options.page_size(number(value)?),
                "num_pages" => options = options.num_pages(number(value)?),
                "max_context" => options = options.max_context(number(value)?),
                "max_batch_tokens" => options = options.max_batch_tokens(number(value)?),
                "threads" => options = options.threads(number(value)?),
                _ => return Err(Failure::Scenario(format!("unknown option {}", key))),
            }
        }
        self.engine = Some(Engine::load(model, &options)?);
        Ok(())
    }

    fn sampling(&self, cache: &str, settings: &[&str]) -> Outcome<()> {
        let mut options = SamplingOptions::new();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            match key {
                "temperature" => options = options.temperature(number(value)?),
                "top_k" => options = options.top_k(number(value)?),
                "top_p" => options = options.top_p(number(value)?),
                "min_p" => options = options.min_p(number(value)?),
                "seed" => options = options.seed(number(value)?),
                "biased_token" => options = options.biased_token(value),
                "banned_token" => options = options.banned_token(number(value)?),
                "allowed_token" => options = options.allowed_token(number(value)?),
                _ => return Err(Failure::Scenario(format!("unknown option {}", key))),
            }
        }
        Ok(get(&self.caches, cache)?.set_sampling(&options)?)
    }

    fn start(&self, cache: &str, tokens: &str, settings: &[&str]) -> Outcome<Generation> {
        let mut options = GenerationOptions::new();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            match key {
                "max_tokens" => options = options.max_tokens(number(value)?),
                "min_tokens" => options = options.min_tokens(number(value)?),
                "stop_token" => options = options.stop_token(number(value)?),
                "end_tokens" if value != "2" => options = options.end_tokens(value == "1"),
                "end_tokens" => return Err(Failure::Impossible),
                "stop_text" => options = options.stop_text(unquote(value)),
                "deadline_ms" => options = options.deadline_ms(number(value)?),
                "priority" => options = options.priority(number(value)?),
                "buffer_tokens" => options = options.buffer_tokens(number(value)?),
                "text" => options = options.text(value == "1"),
                "choice" => options = options.choice(unquote(value)),
                "regex" => options = options.regex(unquote(value)),
                "json_schema" => options = options.json_schema(unquote(value)),
                "json_object" => options = options.json_object(value == "1"),
                "grammar" => options = options.grammar(unquote(value)),
                "force" => options = forcing(options, number(value)?),
                _ => return Err(Failure::Scenario(format!("unknown option {}", key))),
            }
        }
        Ok(get(&self.caches, cache)?.generate(get(&self.tokens, tokens)?, &options)?)
    }

    fn generation(&mut self, name: &str) -> Outcome<&mut Generation> {
        self.generations.get_mut(name).ok_or_else(|| Failure::Scenario(format!("{} is not there", name)))
    }

    /// Why it ended, and the text and the tokens until then.
    fn read(&mut self, name: &str) -> Outcome<Vec<String>> {
        let generation = self.generation(name)?;
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for piece in &mut *generation {
            let piece = piece?;
            text.push_str(&piece.text);
            tokens.extend(piece.tokens);
        }
        let mut result = vec![generation.end().0.to_string(), quote(&text)];
        result.extend(words(&tokens));
        Ok(result)
    }

    fn cancel(&self, name: &str) -> Outcome<()> {
        if name == "engine" {
            return Ok(self.engine()?.cancel()?);
        }
        match self.generations.get(name) {
            Some(generation) => generation.canceller().cancel(),
            None => get(&self.caches, name)?.cancel()?,
        }
        Ok(())
    }

    fn details(&self, expected: &[&str]) -> Outcome<()> {
        let error = self.error.as_ref().ok_or_else(|| Failure::Scenario("no error before".to_string()))?;
        let word = |value: Option<i64>| value.map_or("-".to_string(), |value| value.to_string());
        let found = [word(error.index()), word(error.needed()), word(error.available())];
        if found.iter().ne(expected) {
            return Err(Failure::Scenario(format!("gave {:?}", found)));
        }
        Ok(())
    }

    /// Does one line; gives the words of its result.
    fn execute(&mut self, line: &[&str], expected: usize) -> Outcome<Vec<String>> {
        let (operation, a) = line.split_first().unwrap();
        let mut result = Vec::new();
        match *operation {
            "engine" => self.load(a)?,
            "tokenizer" => {
                self.tokenizer = Some(match a[0] {
                    "engine" => self.engine()?.tokenizer()?,
                    path => Tokenizer::load(folder(path))?,
                })
            }
            "tokens" => {
                let tokens: Outcome<Vec<i32>> = a[1..].iter().map(|word| number(word)).collect();
                self.tokens.insert(a[0].to_string(), tokens?);
            }
            "chunk" => {
                let before = Self::several(&self.chunks, &a[3..])?;
                let chunk = self.engine()?.prefill(get(&self.tokens, a[1])?, Level(number(a[2])?), &before)?;
                self.chunks.insert(a[0].to_string(), chunk);
            }
            "tenant" => self.engine = Some(self.engine()?.tenant(&unquote(a[0]))?),
            "priority" => get(&self.chunks, a[0])?.set_priority(Priority(number(a[1])?))?,
            "retain" => {
                let again = get(&self.chunks, a[1])?.retain()?;
                self.chunks.insert(a[0].to_string(), again);
            }
            "cache" => {
                let composition = match a[1] {
                    "exact" => Composition::EXACT,
                    "independent" => Composition::INDEPENDENT,
                    other => Composition(number(other)?),
                };
                let chunks = Self::several(&self.chunks, &a[2..])?;
                let cache = self.engine()?.cache(&chunks, &CacheOptions::new().composition(composition))?;
                self.caches.insert(a[0].to_string(), cache);
            }
            "fork" => {
                let fork = get(&self.caches, a[1])?.fork()?;
                self.caches.insert(a[0].to_string(), fork);
            }
            "extend" => get(&self.caches, a[0])?.extend(get(&self.tokens, a[1])?)?,
            "truncate" => get(&self.caches, a[0])?.truncate(number(a[1])?)?,
            "sampling" => self.sampling(a[0], &a[1..])?,
            "generate" => {
                for _ in 0..expected {
                    result.extend(words(&decode_step(&[get(&self.caches, a[0])?])?));
                }
            }
            "step" => result = words(&decode_step(&Self::several(&self.caches, a)?)?),
            "generation" => {
                let generation = self.start(a[1], a[2], &a[3..])?;
                self.generations.insert(a[0].to_string(), generation);
            }
            "next" => {
                let timeout: i64 = number(a[1])?;
                let generation = self.generation(a[0])?;
                match u64::try_from(timeout) {
                    Ok(timeout) => drop(generation.next_timeout(Duration::from_millis(timeout))?),
                    Err(_) => drop(generation.next().transpose()?),
                }
            }
            "read" => result = self.read(a[0])?,
            "cancel" => self.cancel(a[0])?,
            "details" => self.details(a)?,
            "generation_fact" => result.push(self.generation(a[0])?.query(GenerationFact(number(a[1])?))?.to_string()),
            "int_bounds" => {
                let bounds = option_bounds_int(number(a[0])?)?;
                result = words(&[bounds.least, bounds.most, bounds.standard]);
            }
            "all_tokens" => result = words(&get(&self.caches, a[0])?.tokens()?),
            "score" => {
                let logprobs = get(&self.caches, a[0])?.score(get(&self.tokens, a[1])?)?;
                result.push(logprobs.iter().filter(|logprob| **logprob <= 0.0).count().to_string());
            }
            "score_next" => {
                let logprobs =
                    get(&self.caches, a[0])?.score_next(get(&self.tokens, a[1])?, get(&self.tokens, a[2])?)?;
                let best = (0..logprobs.len()).max_by(|&i, &j| logprobs[i].total_cmp(&logprobs[j])).unwrap();
                result.push(best.to_string());
            }
            "embed" => {
                let (pooling, normalized) = (Pooling(number(a[2])?), a[3] != "0");
                let vectors = get(&self.caches, a[0])?.embed(get(&self.tokens, a[1])?, pooling, normalized)?;
                result.push(vectors.len().to_string());
            }
            "argmax" => {
                let logits = get(&self.caches, a[0])?.logits()?;
                let best = (0..logits.len()).max_by(|&i, &j| logits[i].total_cmp(&logits[j])).unwrap();
                result.push(best.to_string());
            }
            "engine_fact" => result.push(self.engine()?.query(EngineFact(number(a[0])?))?.to_string()),
            "chunk_fact" => result.push(get(&self.chunks, a[0])?.query(ChunkFact(number(a[1])?))?.to_string()),
            "cache_fact" => result.push(get(&self.caches, a[0])?.query(CacheFact(number(a[1])?))?.to_string()),
            "tokenizer_fact" => result.push(self.tokenizer()?.query(TokenizerFact(number(a[0])?))?.to_string()),
            "device" => result.push(quote(&self.engine()?.device()?)),
            "end_token" => result.push((self.engine()?.is_end_token(number(a[0])?)? as i32).to_string()),
            "encode" => result = words(&self.tokenizer()?.encode(unquote_bytes(a[0]), EncodeFlags(number(a[1])?))?),
            "decode" => result.push(quote(&self.tokenizer()?.decode(get(&self.tokens, a[0])?)?)),
            "piece" => result.push(quote(&self.tokenizer()?.piece(number(a[0])?)?)),
            "find" => result.push(self.tokenizer()?.find(&unquote(a[0]))?.to_string()),
            "stream" => {
                let mut stream = TextStream::new(self.tokenizer()?)?;
                for &token in get(&self.tokens, a[0])? {
                    result.push(quote(&stream.push(token)?));
                }
                result.push(quote(&stream.finish()?));
            }
            "describe" => {
                let (text, name) = (describe_model(folder(a[0]), DescribeFormat::TEXT)?, unquote(a[1]) + ": ");
                result.extend(text.lines().filter_map(|line| line.strip_prefix(&name)).map(quote));
            }
            "format" => self.format = Some(ChatFormat::named(self.tokenizer()?, &unquote(a[0]))?),
            "format_name" => result.push(quote(&self.format()?.name()?)),
            "render" => result = words(&self.render(a)?.tokens),
            "ends" => result = words(&self.render(a)?.ends),
            "render_json" => result = words(&self.render_json(a)?.tokens),
            "ends_json" => result = words(&self.render_json(a)?.ends),
            "free" if a[0] == "engine" => self.engine = None,
            "free" => {
                let known = self.chunks.remove(a[0]).is_some()
                    || self.caches.remove(a[0]).is_some()
                    || self.generations.remove(a[0]).is_some();
                if !known {
                    return Err(Failure::Scenario(format!("{} is not there", a[0])));
                }
            }
            _ => return Err(Failure::Scenario(format!("unknown operation {}", operation))),
        }
        Ok(result)
    }

    fn run(&mut self, line: &str) -> std::result::Result<(), String> {
        let all: Vec<&str> = line.split(' ').collect();
        if all.contains(&"null") {
            return Ok(()); // a reference can't be none
        }
        let (call, expected) = match all.iter().position(|&word| word == "=") {
            Some(place) => (&all[..place], Some(&all[place + 1..])),
            None => (&all[..], None),
        };
        let is_error = call[0] == "error";
        let outcome = self.execute(if is_error { &call[3..] } else { call }, expected.map_or(0, <[_]>::len));
        match outcome {
            Err(Failure::Scenario(text)) => Err(text),
            Err(Failure::Impossible) => Ok(()),
            Err(Failure::Library(error)) if is_error => {
                let as_expected = error.status().to_string() == call[1] && error.text().contains(call[2]);
                let problem = format!("{}: {}", error.status(), error);
                self.error = Some(error);
                if as_expected {
                    Ok(())
                } else {
                    Err(problem)
                }
            }
            Err(Failure::Library(error)) => Err(format!("{}: {}", error.status(), error)),
            Ok(_) if is_error => Err("succeeded".to_string()),
            Ok(result) => match expected {
                Some(expected) if result != expected => Err(format!("gave {:?}", result)),
                _ => Ok(()),
            },
        }
    }
}

#[test]
fn scenarios() {
    let path = Path::new(ROOT).join("tests/bindings/conformance/scenarios.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut state = State::default();
    let mut name = None;
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(next) = line.strip_prefix("scenario ") {
            state = State::default();
            if let Some(done) = name.replace(next) {
                println!("scenario {} ok", done);
            }
            continue;
        }
        if let Err(problem) = state.run(line) {
            panic!("{}:{}: {}\n{}", path.display(), number + 1, problem, line);
        }
    }
    println!("scenario {} ok", name.unwrap());
}
