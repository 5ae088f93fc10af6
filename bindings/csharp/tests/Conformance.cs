// Runs tests/bindings/conformance/scenarios.txt; its language is described beside it.
//   Conformance SCENARIOS MODEL_FOLDER TEXT_FIXTURES FOLDER_OF_OTHER_MODELS
// Prints "scenario NAME ok" for each.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using Nanolith;

/// A scenario that can't be run, as against an error of the library.
sealed class Failure : Exception
{
    internal Failure(string message) : base(message)
    {
    }
}

/// What a scenario has made so far.
sealed class State : IDisposable
{
    static readonly string[] Nothing = new string[0];

    readonly string model;
    readonly string fixtures;
    readonly string work;
    readonly Dictionary<string, int[]> tokens = new Dictionary<string, int[]>();
    readonly Dictionary<string, Chunk> chunks = new Dictionary<string, Chunk>();
    readonly Dictionary<string, Cache> caches = new Dictionary<string, Cache>();
    readonly Dictionary<string, Generation> generations = new Dictionary<string, Generation>();
    Engine engine;
    Tokenizer tokenizer;
    ChatFormat format;
    NanolithException problem; // of the latest error line

    internal State(string model, string fixtures, string work)
    {
        this.model = model;
        this.fixtures = fixtures;
        this.work = work;
    }

    public void Dispose()
    {
        foreach (IDisposable handle in Everything())
        {
            if (handle != null) handle.Dispose();
        }
    }

    IEnumerable<IDisposable> Everything()
    {
        return new IDisposable[] { engine, format, tokenizer }.Concat(chunks.Values).Concat(caches.Values)
            .Concat(generations.Values);
    }

    /// A string has no ill-formed bytes: they are U+FFFD before the library sees them.
    static string Unquote(string word)
    {
        var bytes = new List<byte>();
        for (int i = 0; i < word.Length && word != "%"; i += word[i] == '%' ? 3 : 1)
        {
            bytes.Add(word[i] == '%' ? Convert.ToByte(word.Substring(i + 1, 2), 16) : (byte)word[i]);
        }
        return Encoding.UTF8.GetString(bytes.ToArray());
    }

    string Folder(string word)
    {
        return Unquote(word).Replace("@model", model).Replace("@text", fixtures).Replace("@work", work);
    }

    static int Int(string word)
    {
        return int.Parse(word, CultureInfo.InvariantCulture);
    }

    static double Float(string word)
    {
        return double.Parse(word, CultureInfo.InvariantCulture);
    }

    static string[] Words<T>(IEnumerable<T> values)
    {
        return values.Select(value => Convert.ToString(value, CultureInfo.InvariantCulture)).ToArray();
    }

    static string[] Word(object value)
    {
        return Words(new[] { value });
    }

    static T[] Several<T>(Dictionary<string, T> all, IEnumerable<string> names) where T : class
    {
        return names.Select(name => name == "null" ? null : all[name]).ToArray();
    }

    void Load(IEnumerable<string> settings)
    {
        string folder = null;
        var options = new EngineOptions();
        foreach (string[] setting in settings.Select(word => word.Split('=')))
        {
            string value = setting[1];
            switch (setting[0])
            {
                case "model": folder = Folder(value); break;
                case "device": options.Device = value; break;
                case "dtype": options.Dtype = (Dtype)Int(value); break;
                case "page_size": options.PageSize = Int(value); break;
                case "num_pages": options.NumPages = Int(value); break;
                case "max_context": options.MaxContext = Int(value); break;
                case "max_batch_tokens": options.MaxBatchTokens = Int(value); break;
                case "threads": options.Threads = Int(value); break;
                default: throw new Failure("unknown option " + setting[0]);
            }
        }
        var loaded = new Engine(folder, options);
        if (engine != null) engine.Dispose();
        engine = loaded;
    }

    void BecomeTenant(string salt)
    {
        Engine tenant = engine.CreateTenant(salt);
        engine.Dispose();
        engine = tenant;
    }

    static SamplingOptions Sampling(IEnumerable<string> settings)
    {
        var options = new SamplingOptions();
        foreach (string[] setting in settings.Select(word => word.Split('=')))
        {
            switch (setting[0])
            {
                case "temperature": options.Temperature = Float(setting[1]); break;
                case "top_k": options.TopK = Int(setting[1]); break;
                case "top_p": options.TopP = Float(setting[1]); break;
                case "min_p": options.MinP = Float(setting[1]); break;
                case "seed": options.Seed = long.Parse(setting[1], CultureInfo.InvariantCulture); break;
                case "biased_token": options.BiasedTokens.Add(setting[1]); break;
                case "banned_token": options.BannedTokens.Add(Int(setting[1])); break;
                case "allowed_token": options.AllowedTokens.Add(Int(setting[1])); break;
                default: throw new Failure("unknown option " + setting[0]);
            }
        }
        return options;
    }

    /// Leaves one token that can be drawn.
    static LogitsFunction Forcing(int token)
    {
        return (context, logits) =>
        {
            for (int i = 0; i < logits.Length; ++i) logits[i] = i == token ? 0 : float.NegativeInfinity;
            return true;
        };
    }

    static GenerationOptions Options(IEnumerable<string> settings)
    {
        var options = new GenerationOptions();
        foreach (string[] setting in settings.Select(word => word.Split('=')))
        {
            string value = setting[1];
            switch (setting[0])
            {
                case "max_tokens": options.MaxTokens = Int(value); break;
                case "min_tokens": options.MinTokens = Int(value); break;
                case "stop_token": options.StopTokens.Add(Int(value)); break;
                case "end_tokens":
                    if (value == "2") throw new NotSupportedException("a language's bool");
                    options.EndTokens = value == "1";
                    break;
                case "stop_text": options.StopTexts.Add(Unquote(value)); break;
                case "deadline_ms": options.DeadlineMs = Int(value); break;
                case "priority": options.Priority = Int(value); break;
                case "buffer_tokens": options.BufferTokens = Int(value); break;
                case "text": options.Text = value == "1"; break;
                case "choice": options.Choices.Add(Unquote(value)); break;
                case "regex": options.Regex = Unquote(value); break;
                case "json_schema": options.JsonSchema = Unquote(value); break;
                case "json_object": options.JsonObject = value == "1"; break;
                case "grammar": options.Grammar = Unquote(value); break;
                case "force": options.Logits = Forcing(Int(value)); break;
                default: throw new Failure("unknown option " + setting[0]);
            }
        }
        return options;
    }

    /// Why it ended, and the text and the tokens until then.
    static string[] Read(Generation generation)
    {
        Piece[] pieces = generation.AsEnumerable().ToArray();
        string text = string.Concat(pieces.Select(piece => piece.Text));
        return new[] { ((int)generation.End).ToString(CultureInfo.InvariantCulture), text }
            .Concat(Words(pieces.SelectMany(piece => piece.Tokens))).ToArray();
    }

    static void Next(Generation generation, int timeoutMs)
    {
        if (timeoutMs < 0) generation.Next();
        else generation.Next(TimeSpan.FromMilliseconds(timeoutMs));
    }

    void Cancel(string name)
    {
        if (name == "engine") engine.Cancel();
        else if (generations.ContainsKey(name)) generations[name].Cancel();
        else caches[name].Cancel();
    }

    static string[] IntBounds(int option)
    {
        Bounds<long> bounds = Library.IntBounds(option);
        return Words(new[] { bounds.Least, bounds.Most, bounds.Default });
    }

    void CheckDetails(string[] expected)
    {
        string[] found = new[] { problem.Index, problem.Needed, problem.Available }
            .Select(value => value == null ? "-" : Words(new[] { value.Value })[0]).ToArray();
        if (!found.SequenceEqual(expected)) throw new Failure("gave " + string.Join(" ", found));
    }

    string[] Stream(int[] ids)
    {
        using (TextStream stream = tokenizer.CreateTextStream())
        {
            var result = ids.Select(stream.Push).ToList();
            result.Add(stream.Finish());
            return result.ToArray();
        }
    }

    /// The first word has the flags; then come a role and a content for each message.
    RenderedChat Render(string[] a)
    {
        var messages = Enumerable.Range(0, a.Length / 2)
            .Select(i => new Message((Role)Int(a[2 * i + 1]), Unquote(a[2 * i + 2])));
        return format.Render(messages.ToArray(), (ChatFlags)Int(a[0]));
    }

    RenderedChat RenderJson(string[] a)
    {
        return format.RenderJson(Unquote(a[2]), Int(a[1]), (ChatFlags)Int(a[0]));
    }

    static int Best(float[] logits)
    {
        return Array.IndexOf(logits, logits.Max());
    }

    static Composition CompositionOf(string word)
    {
        return word == "exact" ? Composition.Exact
            : word == "independent" ? Composition.Independent : (Composition)Int(word);
    }

    /// Does one line, and gives the words of its result; texts are not quoted.
    string[] Execute(string[] line, int expected)
    {
        string[] a = line.Skip(1).ToArray();
        switch (line[0])
        {
            case "engine": Load(a); return Nothing;
            case "tokenizer":
                tokenizer = a[0] == "engine" ? engine.CreateTokenizer() : new Tokenizer(Folder(a[0]));
                return Nothing;
            case "tokens": tokens[a[0]] = a.Skip(1).Select(Int).ToArray(); return Nothing;
            case "chunk":
                chunks[a[0]] = engine.Prefill(tokens[a[1]], (Level)Int(a[2]), Several(chunks, a.Skip(3)));
                return Nothing;
            case "tenant": BecomeTenant(Unquote(a[0])); return Nothing;
            case "priority": chunks[a[0]].SetPriority((Priority)Int(a[1])); return Nothing;
            case "retain": chunks[a[0]] = chunks[a[1]].Retain(); return Nothing;
            case "cache":
                caches[a[0]] = engine.CreateCache(Several(chunks, a.Skip(2)),
                    new CacheOptions { Composition = CompositionOf(a[1]) });
                return Nothing;
            case "fork": caches[a[0]] = caches[a[1]].Fork(); return Nothing;
            case "extend": caches[a[0]].Extend(tokens[a[1]]); return Nothing;
            case "truncate": caches[a[0]].Truncate(Int(a[1])); return Nothing;
            case "sampling": caches[a[0]].SetSampling(Sampling(a.Skip(1))); return Nothing;
            case "generate":
                return Words(Enumerable.Range(0, expected).Select(_ => Cache.DecodeStep(new[] { caches[a[0]] })[0]));
            case "step": return Words(Cache.DecodeStep(Several(caches, a)));
            case "generation":
                generations[a[0]] = caches[a[1]].Generate(tokens[a[2]], Options(a.Skip(3)));
                return Nothing;
            case "next": Next(generations[a[0]], Int(a[1])); return Nothing;
            case "read": return Read(generations[a[0]]);
            case "cancel": Cancel(a[0]); return Nothing;
            case "details": CheckDetails(a); return Nothing;
            case "generation_fact": return Word(generations[a[0]].Query((GenerationFact)Int(a[1])));
            case "int_bounds": return IntBounds(Int(a[0]));
            case "all_tokens": return Words(caches[a[0]].Tokens());
            case "score": return Word(caches[a[0]].Score(tokens[a[1]]).Count(logprob => logprob <= 0));
            case "score_next": return Word(Best(caches[a[0]].ScoreNext(tokens[a[1]], tokens[a[2]])));
            case "embed":
                return Word(caches[a[0]].Embed(tokens[a[1]], (Pooling)Int(a[2]), (EmbedFlags)Int(a[3])).Length);
            case "argmax": return Word(Best(caches[a[0]].Logits()));
            case "engine_fact": return Word(engine.Query((EngineFact)Int(a[0])));
            case "chunk_fact": return Word(chunks[a[0]].Query((ChunkFact)Int(a[1])));
            case "cache_fact": return Word(caches[a[0]].Query((CacheFact)Int(a[1])));
            case "tokenizer_fact": return Word(tokenizer.Query((TokenizerFact)Int(a[0])));
            case "device": return Word(engine.Device);
            case "end_token": return Word(engine.IsEndToken(Int(a[0])) ? 1 : 0);
            case "encode": return Words(tokenizer.Encode(Unquote(a[0]), (EncodeFlags)Int(a[1])));
            case "decode": return Word(tokenizer.Decode(tokens[a[0]]));
            case "piece": return Word(tokenizer.Piece(Int(a[0])));
            case "find": return Word(tokenizer.Find(Unquote(a[0])));
            case "stream": return Stream(tokens[a[0]]);
            case "describe":
                return Library.DescribeModel(Folder(a[0])).Split('\n')
                    .Where(fact => fact.StartsWith(Unquote(a[1]) + ": ", StringComparison.Ordinal))
                    .Select(fact => fact.Substring(Unquote(a[1]).Length + 2)).ToArray();
            case "format": format = tokenizer.CreateChatFormat(Unquote(a[0])); return Nothing;
            case "format_name": return Word(format.Name);
            case "render": return Words(Render(a).Tokens);
            case "ends": return Words(Render(a).Ends);
            case "render_json": return Words(RenderJson(a).Tokens);
            case "ends_json": return Words(RenderJson(a).Ends);
            case "free": Free(a[0]); return Nothing;
            default: throw new Failure("unknown operation " + line[0]);
        }
    }

    void Free(string name)
    {
        IDisposable handle = name == "engine" ? engine
            : chunks.ContainsKey(name) ? (IDisposable)chunks[name]
            : caches.ContainsKey(name) ? (IDisposable)caches[name] : generations[name];
        handle.Dispose();
    }

    internal void Run(string text)
    {
        string[] call = text.Split(' ');
        int place = Array.IndexOf(call, "=");
        string[] expected = place < 0 ? null : call.Skip(place + 1).Select(Unquote).ToArray();
        if (place >= 0) call = call.Take(place).ToArray();
        int count = expected == null ? 0 : expected.Length;
        if (call[0] != "error")
        {
            string[] result = Execute(call, count);
            if (expected != null && !result.SequenceEqual(expected))
            {
                throw new Failure("gave " + string.Join(" ", result));
            }
            return;
        }
        try
        {
            Execute(call.Skip(3).ToArray(), count);
        }
        catch (NotSupportedException)
        {
            return; // what this language can't say
        }
        catch (NanolithException exception)
        {
            problem = exception;
            if (problem.StatusName == call[1] && problem.Message.Contains(call[2])) return;
            throw;
        }
        throw new Failure("succeeded");
    }
}

static class Conformance
{
    static int Main(string[] arguments)
    {
        string[] scenarios = File.ReadAllText(arguments[0]).Split(new[] { "\nscenario " }, StringSplitOptions.None);
        int failed = 0;
        foreach (string[] lines in scenarios.Skip(1).Select(scenario => scenario.Split('\n')))
        {
            using (var state = new State(arguments[1], arguments[2], arguments[3]))
            {
                string current = "";
                try
                {
                    foreach (string line in lines.Skip(1).Where(line => line != "" && line[0] != '#'))
                    {
                        current = line;
                        state.Run(line);
                    }
                    Console.WriteLine("scenario {0} ok", lines[0]);
                }
                catch (Exception problem)
                {
                    ++failed;
                    Console.WriteLine("scenario {0} FAILED: {1}\n{2}", lines[0], problem.Message, current);
                }
            }
        }
        return failed > 0 ? 1 : 0;
    }
}
