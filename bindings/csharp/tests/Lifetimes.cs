// Values that are disposed of in any order, used afterwards, shared between threads, and made many times.
//   Lifetimes MODEL_FOLDER [rounds | query]
// Prints "test NAME ok" for each. With "rounds" it looks at the memory of many rounds instead, and with "query" at what
// a call costs that does nothing.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Nanolith;

static class Lifetimes
{
    static string model;

    static int Main(string[] arguments)
    {
        model = arguments[0];
        if (arguments.Length > 1)
        {
            if (arguments[1] == "rounds") Rounds();
            else Query();
            return 0;
        }
        int failed = 0;
        foreach (Action test in new Action[]
        {
            UseAfterDispose, DisposeEngineFirst, NullArguments, Errors, RenderedMessages, WrongChats, GenerationGoesOn,
            CancelWakesWhoWaits, TokensCancel, ManyAwaited, WaitingHasALimit, GenerationEndsByError, Progress,
            LogitsAreChanged, LogitsFunctionEndsItsGeneration, ExceptionOfLogitsFunction, DisposeWaitsForLogitsFunction,
            ForgottenLogitsFunctions, AboutTheLibrary,
            LogAndExceptionInIt, Finalizers, SixteenThreads, DisposeDuringCalls,
        })
        {
            try
            {
                test();
                Console.WriteLine("test {0} ok", test.Method.Name);
            }
            catch (Exception problem)
            {
                ++failed;
                Console.WriteLine("test {0} FAILED: {1}", test.Method.Name, problem);
            }
        }
        return failed;
    }

    static void Expect(bool condition, string what)
    {
        if (!condition) throw new Exception(what);
    }

    static TException Throws<TException>(Action call, string what) where TException : Exception
    {
        try
        {
            call();
        }
        catch (TException problem)
        {
            return problem;
        }
        throw new Exception(what + " threw nothing");
    }

    static Engine Load()
    {
        return new Engine(model, new EngineOptions { Device = "cpu", Threads = 2, PageSize = 16, NumPages = 256 });
    }

    static int[] Greedy(Cache cache, int count)
    {
        return Enumerable.Range(0, count).Select(_ => Cache.DecodeStep(new[] { cache })[0]).ToArray();
    }

    static void UseAfterDispose()
    {
        Engine engine = Load();
        Tokenizer tokenizer = engine.CreateTokenizer();
        TextStream stream = tokenizer.CreateTextStream();
        ChatFormat format = tokenizer.CreateChatFormat("plain");
        Chunk chunk = engine.Prefill(new[] { 1, 7, 9 }, Level.System);
        Cache cache = engine.CreateCache(new[] { chunk });
        using (Cache open = cache.Fork())
        using (Cache asked = cache.Fork())
        {
            Generation generation = asked.Generate(new int[0]);
            for (int i = 0; i < 2; ++i)
            {
                foreach (IDisposable value in new IDisposable[] { engine, tokenizer, stream, format, chunk, cache, generation })
                {
                    value.Dispose();
                }
            }
            var calls = new Dictionary<string, Action>
            {
                { "Engine.Query", () => engine.Query(EngineFact.NumLayers) },
                { "Engine.Device", () => engine.Device.ToString() },
                { "Engine.IsEndToken", () => engine.IsEndToken(2) },
                { "Engine.CreateTokenizer", () => engine.CreateTokenizer() },
                { "Engine.Prefill", () => engine.Prefill(new[] { 1 }, Level.System) },
                { "Engine.CreateCache", () => engine.CreateCache() },
                { "Tokenizer.Encode", () => tokenizer.Encode("x") },
                { "Tokenizer.Decode", () => tokenizer.Decode(new[] { 7 }) },
                { "Tokenizer.Query", () => tokenizer.Query(TokenizerFact.Bos) },
                { "Tokenizer.Find", () => tokenizer.Find("x") },
                { "Tokenizer.Piece", () => tokenizer.Piece(7) },
                { "Tokenizer.CreateTextStream", () => tokenizer.CreateTextStream() },
                { "Tokenizer.CreateChatFormat", () => tokenizer.CreateChatFormat("plain") },
                { "ChatFormat.Name", () => format.Name.ToString() },
                { "ChatFormat.Render", () => format.Render(new[] { new Message(Role.User, "x") }) },
                { "TextStream.Push", () => stream.Push(7) },
                { "TextStream.Finish", () => stream.Finish() },
                { "Chunk.Query", () => chunk.Query(ChunkFact.Tokens) },
                { "Chunk.Retain", () => chunk.Retain() },
                { "Cache.Extend", () => cache.Extend(new[] { 7 }) },
                { "Cache.Fork", () => cache.Fork() },
                { "Cache.Truncate", () => cache.Truncate(1) },
                { "Cache.Tokens", () => cache.Tokens() },
                { "Cache.Logits", () => cache.Logits() },
                { "Cache.Query", () => cache.Query(CacheFact.Tokens) },
                { "Cache.SetSampling", () => cache.SetSampling(new SamplingOptions()) },
                { "Cache.DecodeStep", () => Cache.DecodeStep(new[] { open, cache }) },
                { "Engine.Cancel", () => engine.Cancel() },
                { "Cache.Cancel", () => cache.Cancel() },
                { "Cache.Generate", () => cache.Generate(new int[0]) },
                { "Generation.Next", () => generation.Next() },
                { "Generation.ReadText", () => generation.ReadText() },
                { "Generation.Query", () => generation.Query(GenerationFact.Tokens) },
                { "Generation.Cancel", () => generation.Cancel() },
                { "Generation.Descriptor", () => generation.Descriptor.ToString() },
                { "Generation.NextAsync", () => generation.NextAsync().GetAwaiter().GetResult() },
            };
            foreach (KeyValuePair<string, Action> call in calls)
            {
                Throws<ObjectDisposedException>(call.Value, call.Key);
            }
            Expect(open.Tokens().Length == 3, "the open cache lost its tokens");
        }
    }

    static void DisposeEngineFirst()
    {
        Engine engine = Load();
        Tokenizer tokenizer = engine.CreateTokenizer();
        TextStream stream = tokenizer.CreateTextStream();
        Chunk chunk = engine.Prefill(tokenizer.Encode("<|user|> Name the place.", EncodeFlags.AddBos), Level.System);
        Cache cache = engine.CreateCache(new[] { chunk });
        Cache fork = cache.Fork();
        ChatFormat format = tokenizer.CreateChatFormat("plain");
        var messages = new[] { new Message(Role.System, "<|system|> Be brief."), new Message(Role.User, "<|user|> Who?") };
        RenderedChat chat = format.Render(messages);
        engine.Dispose();
        tokenizer.Dispose();
        Expect(format.Name == "plain", "the format lost its tokenizer");
        Expect(format.Render(messages, ChatFlags.AddGenerationPrompt).Tokens.SequenceEqual(chat.Tokens), "other tokens");
        format.Dispose();
        Expect(stream.Push(5) + stream.Finish() == "<|user|>", "the stream lost its tokenizer");
        Expect(chunk.Query(ChunkFact.Users) == 3, "the chunk lost its users");
        chunk.Dispose();
        int[] tokens = Greedy(cache, 4);
        cache.Dispose();
        Expect(Greedy(fork, 4).SequenceEqual(tokens), "the fork draws other tokens");
        fork.Dispose();
        stream.Dispose();
    }

    static void NullArguments()
    {
        using (Engine engine = Load())
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        using (Cache cache = engine.CreateCache())
        {
            Throws<ArgumentNullException>(() => new Engine(null), "new Engine");
            Throws<ArgumentNullException>(() => Library.DescribeModel(null), "DescribeModel");
            Throws<ArgumentNullException>(() => new Tokenizer(null), "new Tokenizer");
            Throws<ArgumentNullException>(() => engine.Prefill(null, Level.System), "Prefill");
            Throws<ArgumentNullException>(() => tokenizer.Encode(null), "Encode");
            Throws<ArgumentNullException>(() => tokenizer.Decode(null), "Decode");
            Throws<ArgumentNullException>(() => cache.Extend(null), "Extend");
            Throws<ArgumentNullException>(() => cache.SetSampling(null), "SetSampling");
            Throws<ArgumentNullException>(() => cache.Generate(null), "Generate");
            Throws<ArgumentNullException>(() => Cache.DecodeStep(null), "DecodeStep");
            Throws<ArgumentNullException>(() => tokenizer.CreateChatFormat(null), "CreateChatFormat");
            Throws<ArgumentNullException>(() => new Message(Role.User, null), "new Message");
            using (ChatFormat format = tokenizer.CreateChatFormat("plain"))
            {
                Throws<ArgumentNullException>(() => format.Render(null), "Render");
                Throws<ArgumentNullException>(() => format.Render(new Message[1]), "Render");
            }
            var problem = Throws<NanolithException>(() => engine.CreateCache(new Chunk[1]), "CreateCache");
            Expect(problem.Message.Contains("chunks[0]"), problem.Message);
        }
    }

    static void Errors()
    {
        var problem = Throws<NanolithException>(() => new Engine("/nowhere"), "new Engine");
        Expect(problem.Status == Status.NotFound && problem.StatusName == "NL_ERROR_NOT_FOUND", problem.StatusName);
        Expect(problem.Message.Contains("/nowhere"), problem.Message);
    }

    static void RenderedMessages()
    {
        using (var tokenizer = new Tokenizer(model))
        using (ChatFormat format = tokenizer.CreateChatFormat("plain"))
        {
            string longText = string.Concat(Enumerable.Repeat("Boso Polm ", 2000)); // more tokens than are guessed at first
            var texts = new[] { "<|system|> Be brief.", longText, "", "<|user|> Who?" };
            RenderedChat chat = format.Render(texts.Select(text => new Message(Role.User, text)).ToArray());
            Expect(chat.Ends.Length == 4, "ends");
            Expect(Enumerable.Range(0, 4).SelectMany(chat.Message).SequenceEqual(chat.Tokens), "the messages' tokens");
            Expect(chat.Message(2).Length == 0 && chat.From(4).Length == 0, "empty parts");
            Expect(chat.From(3).SequenceEqual(chat.Message(3)), "the last part");
            Expect(tokenizer.Decode(chat.From(0)) == string.Concat(texts), "text");
        }
    }

    static void WrongChats()
    {
        using (var tokenizer = new Tokenizer(model))
        using (ChatFormat format = tokenizer.CreateChatFormat("plain"))
        {
            var names = new Dictionary<string, Status>
            {
                { "", Status.NotFound }, { "no-such", Status.InvalidArgument }, { "chatml", Status.Unsupported },
            };
            foreach (KeyValuePair<string, Status> name in names)
            {
                var error = Throws<NanolithException>(() => tokenizer.CreateChatFormat(name.Key), "CreateChatFormat");
                Expect(error.Status == name.Value, error.Message);
            }
            foreach (Message[] messages in new[]
            {
                new Message[0], new[] { new Message((Role)3, "x") }, new[] { new Message((Role)(-1), "x") },
            })
            {
                var error = Throws<NanolithException>(() => format.Render(messages), "Render");
                Expect(error.Status == Status.InvalidArgument, error.Message);
            }
            var flags = (ChatFlags)(1 << 30);
            var problem = Throws<NanolithException>(() => format.Render(new[] { new Message(Role.User, "x") }, flags), "Render");
            Expect(problem.Message.Contains("flags"), problem.Message);
        }
    }

    /// A cache with something to go on from.
    static Cache Prompted(Engine engine)
    {
        Cache cache = engine.CreateCache();
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        {
            cache.Extend(tokenizer.Encode("<|doc|> Boso Polm", EncodeFlags.AddBos));
        }
        return cache;
    }

    /// Goes on until somebody ends it: it pauses, and goes on when it is read.
    static GenerationOptions Endless()
    {
        return new GenerationOptions { EndTokens = false, BufferTokens = 2 };
    }

    static GenerationOptions Exactly(int count)
    {
        return new GenerationOptions { EndTokens = false, MaxTokens = count };
    }

    /// Waits until the cache is free: a generation that was disposed of ends with its step.
    static void Truncate(Cache cache, int length)
    {
        while (true)
        {
            try
            {
                cache.Truncate(length);
                return;
            }
            catch (NanolithException problem)
            {
                if (problem.Status != Status.Busy) throw;
                Thread.Sleep(1);
            }
        }
    }

    static void GenerationGoesOn()
    {
        Engine engine = Load();
        Cache cache = Prompted(engine);
        int[] expected;
        using (Cache fork = cache.Fork()) expected = Greedy(fork, 6);
        using (Generation generation = cache.Generate(new int[0], Exactly(6)))
        {
            engine.Dispose();
            cache.Dispose();
            int[] tokens = generation.AsEnumerable().SelectMany(piece => piece.Tokens).ToArray();
            Expect(tokens.SequenceEqual(expected), "other tokens");
            Expect(generation.End == EndReason.Length && generation.Next() == null, "it went on");
            Statistics statistics = generation.Statistics;
            Expect(statistics.Tokens == 6 && statistics.FirstToken.Value <= statistics.Total, "statistics");
        }
    }

    static void CancelWakesWhoWaits()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            for (int round = 0; round < 4; ++round)
            {
                Generation generation = cache.Generate(new int[0], new GenerationOptions { EndTokens = false });
                Task<string> text = Task.Run(() => generation.ReadText());
                Thread.Sleep(5);
                if (round == 0) generation.Cancel();
                if (round == 1) cache.Cancel();
                if (round == 2) engine.Cancel();
                if (round == 3) generation.Dispose();
                try
                {
                    text.Wait();
                    Expect(generation.End == EndReason.Cancelled, "it ended: " + generation.End);
                }
                catch (AggregateException problem)
                {
                    Expect(round == 3 && problem.InnerException is ObjectDisposedException, problem.ToString());
                }
                generation.Dispose();
                Truncate(cache, 4);
            }
        }
    }

    static void TokensCancel()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        using (var source = new CancellationTokenSource())
        using (Generation generation = cache.Generate(new int[0], Endless()))
        {
            IAsyncEnumerator<Piece> pieces = generation.GetAsyncEnumerator(source.Token);
            for (int i = 0; i < 3; ++i)
            {
                Expect(pieces.MoveNextAsync().AsTask().Result && pieces.Current.Tokens.Length > 0, "no piece");
            }
            source.Cancel();
            var problem = Throws<AggregateException>(() => pieces.MoveNextAsync().AsTask().Wait(), "MoveNextAsync");
            Expect(problem.InnerException is OperationCanceledException, problem.ToString());
            pieces.DisposeAsync().AsTask().Wait();
            while (generation.Next() != null)
            {
            }
            Expect(generation.End == EndReason.Cancelled, "it ended: " + generation.End);
        }
        // While it waits: there is nothing yet.
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        using (var source = new CancellationTokenSource())
        using (Generation generation = cache.Generate(Enumerable.Repeat(7, 900).ToArray()))
        {
            Task<Piece> next = generation.NextAsync(source.Token);
            source.Cancel();
            try
            {
                next.Wait();
                Expect(next.Result != null, "the end, without a cancellation");
            }
            catch (AggregateException problem)
            {
                Expect(problem.InnerException is OperationCanceledException, problem.ToString());
            }
        }
    }

    /// More generations are awaited at once than the pool has threads at first.
    static void ManyAwaited()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            int[] expected;
            using (Cache fork = cache.Fork()) expected = Greedy(fork, 12);
            Func<Task<int[]>> draw = async () =>
            {
                var tokens = new List<int>();
                using (Cache fork = cache.Fork())
                using (Generation generation = fork.Generate(new int[0], Exactly(12)))
                {
                    for (Piece piece; (piece = await generation.NextAsync()) != null;) tokens.AddRange(piece.Tokens);
                }
                return tokens.ToArray();
            };
            Task<int[]>[] tasks = Enumerable.Range(0, 24).Select(_ => draw()).ToArray();
            Task.WaitAll(tasks);
            Expect(tasks.All(task => task.Result.SequenceEqual(expected)), "other tokens");
        }
    }

    static void WaitingHasALimit()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        using (Generation generation = cache.Generate(Enumerable.Repeat(7, 900).ToArray(), Exactly(1)))
        {
            var problem = Throws<NanolithException>(() => generation.Next(TimeSpan.Zero), "Next");
            Expect(problem.Status == Status.Timeout && generation.End == EndReason.None, problem.Message);
            problem = Throws<NanolithException>(() => cache.Extend(new[] { 7 }), "Extend");
            Expect(problem.Status == Status.Busy, problem.Message);
            while (generation.Next(TimeSpan.FromMinutes(1)) != null)
            {
            }
            Expect(generation.End == EndReason.Length && generation.Descriptor >= 0, "it ended: " + generation.End);
        }
    }

    static void GenerationEndsByError()
    {
        using (var engine = new Engine(model, new EngineOptions { Device = "cpu", PageSize = 16, NumPages = 1 }))
        using (Cache cache = Prompted(engine))
        using (Cache empty = engine.CreateCache())
        {
            using (Generation generation = cache.Generate(new int[0], new GenerationOptions { EndTokens = false }))
            {
                var problem = Throws<NanolithException>(() => generation.ReadText(), "ReadText");
                Expect(problem.Status == Status.OutOfPages && problem.Index == null && problem.Needed == 1 &&
                    problem.Available == 0, problem.Message);
                Expect(generation.End == EndReason.Error && generation.Next() == null, "it went on");
            }
            using (Generation generation = cache.Generate(new int[0], new GenerationOptions { EndTokens = false }))
            {
                var problem = Throws<AggregateException>(() => generation.ReadTextAsync().Wait(), "ReadTextAsync");
                var inner = problem.InnerException as NanolithException;
                Expect(inner != null && inner.Status == Status.OutOfPages, problem.ToString());
            }
            var error = Throws<NanolithException>(() => Cache.DecodeStep(new[] { cache, empty }), "DecodeStep");
            Expect(error.Index == 1, error.Message);
        }
    }

    static void Progress()
    {
        var heard = new List<double>();
        var options = new EngineOptions { Device = "cpu", NumPages = 8, Progress = heard.Add };
        new Engine(model, options).Dispose();
        Expect(heard.LastOrDefault() == 1, "it was not heard");
        options.Progress = done => new CancellationToken(true).ThrowIfCancellationRequested();
        Throws<OperationCanceledException>(() => new Engine(model, options), "new Engine");
    }

    /// Leaves one token that can be drawn.
    static bool Force(float[] logits, int token)
    {
        for (int i = 0; i < logits.Length; ++i) logits[i] = i == token ? 0 : float.NegativeInfinity;
        return true;
    }

    static int[] Drawn(Generation generation)
    {
        return generation.AsEnumerable().SelectMany(piece => piece.Tokens).ToArray();
    }

    static void LogitsAreChanged()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        using (Cache fork = cache.Fork())
        {
            int[] prompt = cache.Tokens();
            long vocabulary = engine.Query(EngineFact.VocabSize);
            var seen = new List<string>();
            GenerationOptions options = Exactly(4);
            options.Logits = (tokens, logits) =>
            {
                if (logits.Length != vocabulary) return false;
                lock (seen) seen.Add(string.Join(" ", tokens));
                return Force(logits, 7 + tokens.Length);
            };
            int[] expected = Enumerable.Range(7 + prompt.Length, 4).ToArray();
            // Two of the same options at once.
            using (Generation one = cache.Generate(new int[0], options))
            using (Generation other = fork.Generate(new int[0], options))
            {
                foreach (Generation generation in new[] { one, other })
                {
                    Expect(Drawn(generation).SequenceEqual(expected), "other tokens");
                    Expect(generation.End == EndReason.Length, "it ended: " + generation.End);
                }
            }
            IEnumerable<string> contexts = Enumerable.Range(0, 4).SelectMany(
                count => Enumerable.Repeat(string.Join(" ", prompt.Concat(expected.Take(count))), 2));
            Expect(seen.OrderBy(x => x).SequenceEqual(contexts.OrderBy(x => x)), string.Join("; ", seen));
            // Each has its own function.
            using (Generation one = cache.Generate(new int[0],
                new GenerationOptions { MaxTokens = 3, Logits = (tokens, logits) => Force(logits, 500) }))
            using (Generation other = fork.Generate(new int[0],
                new GenerationOptions { MaxTokens = 3, Logits = (tokens, logits) => Force(logits, 600) }))
            {
                Expect(Drawn(other).SequenceEqual(new[] { 600, 600, 600 }), "another's function");
                Expect(Drawn(one).SequenceEqual(new[] { 500, 500, 500 }), "another's function");
            }
        }
    }

    /// Draws 500 twice, and then ends in some way.
    static Generation Ending(Cache cache, Func<float[], bool> how)
    {
        int calls = 0;
        return cache.Generate(new int[0], new GenerationOptions
        {
            EndTokens = false,
            Logits = (tokens, logits) => Force(logits, 500) && (++calls <= 2 || how(logits)),
        });
    }

    static void LogitsFunctionEndsItsGeneration()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            using (Generation generation = Ending(cache, logits => false))
            {
                Expect(Drawn(generation).SequenceEqual(new[] { 500, 500 }), "other tokens");
                Expect(generation.End == EndReason.Cancelled, "it ended: " + generation.End);
            }
            Truncate(cache, 4);
            foreach (float wrong in new[] { float.NaN, float.PositiveInfinity, float.NegativeInfinity })
            {
                Func<float[], bool> spoil = logits =>
                {
                    logits[500] = wrong;
                    return true;
                };
                using (Generation generation = Ending(cache, spoil))
                {
                    var tokens = new List<int>();
                    var problem = Throws<NanolithException>(() =>
                    {
                        foreach (Piece piece in generation) tokens.AddRange(piece.Tokens);
                    }, "reading");
                    Expect(problem.Status == Status.InvalidArgument, problem.Message);
                    Expect(tokens.SequenceEqual(new[] { 500, 500 }) && generation.End == EndReason.Error, "other tokens");
                }
                Truncate(cache, 4);
            }
        }
    }

    static void ExceptionOfLogitsFunction()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            var reads = new Func<Generation, Piece>[]
            {
                generation => generation.Next(), generation => generation.Next(TimeSpan.FromMinutes(1)),
                generation => generation.NextAsync().GetAwaiter().GetResult(),
            };
            foreach (Func<Generation, Piece> read in reads)
            {
                var enough = new InvalidOperationException("enough");
                using (Generation generation = Ending(cache, logits => { throw enough; }))
                {
                    var tokens = new List<int>();
                    var problem = Throws<InvalidOperationException>(() =>
                    {
                        while (true) tokens.AddRange(read(generation).Tokens);
                    }, "reading");
                    Expect(problem == enough && tokens.SequenceEqual(new[] { 500, 500 }), problem.ToString());
                    Expect(generation.Next() == null && generation.End == EndReason.Cancelled, "it is not over");
                }
                Truncate(cache, 4);
            }
        }
    }

    static void DisposeWaitsForLogitsFunction()
    {
        int running = 0, calls = 0;
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            for (int round = 0; round < 20; ++round)
            {
                GenerationOptions options = Endless();
                options.Logits = (tokens, logits) =>
                {
                    Interlocked.Increment(ref running);
                    Interlocked.Increment(ref calls);
                    Thread.Sleep(3);
                    Interlocked.Decrement(ref running);
                    return true;
                };
                Generation generation = cache.Generate(new int[0], options);
                Thread.Sleep(round);
                generation.Dispose();
                Expect(Volatile.Read(ref running) == 0, "it still runs");
                Truncate(cache, 4);
            }
        }
        Expect(calls > 0, "it never ran: nothing is tested here");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static WeakReference LeaveChanging(Cache cache)
    {
        Generation generation = null;
        GenerationOptions options = Endless();
        options.Logits = (tokens, logits) => generation == null || tokens.Length > 0;
        generation = cache.Generate(new int[0], options);
        generation.Next();
        return new WeakReference(options.Logits);
    }

    /// Functions that refer to their own generations, which nobody disposes of, are garbage with them.
    static void ForgottenLogitsFunctions()
    {
        using (Engine engine = Load())
        using (Cache cache = Prompted(engine))
        {
            var left = new List<WeakReference>();
            var thread = new Thread(() =>
            {
                for (int i = 0; i < 20; ++i)
                {
                    using (Cache fork = cache.Fork()) left.Add(LeaveChanging(fork));
                }
            });
            thread.Start();
            thread.Join();
            // Mono's collector may keep a few: see Finalizers.
            for (int i = 0; i < 100 && left.Count(one => one.IsAlive) > 5; ++i)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(10);
            }
            int alive = left.Count(one => one.IsAlive);
            Expect(alive <= 5, alive + " of 20 functions are still there after the garbage collection");
        }
    }

    static void AboutTheLibrary()
    {
        Expect(Library.VersionNumber >= 200 && Library.Version.Contains("."), "version");
        Bounds<long> size = Library.IntBounds((int)EngineOption.PageSize);
        Expect(size.Least == 16 && size.Most == 256 && size.Default == 64, "bounds of the page size");
        Bounds<double> share = Library.FloatBounds((int)SamplingOption.TopP);
        Expect(share.Least == 1e-30 && share.Most == 1 && share.Default == 1, "bounds of top-p");
        Expect(Library.DescribeOptions(OptionsKind.Generation).Contains("\"STOP_TEXT\""), "options");
        Expect(Library.DescribeFacts(FactsKind.Cache).Contains("\"PRIVATE_PAGES\""), "facts");
        Expect(Library.DescribeModel(model, DescribeFormat.Json).StartsWith("{"), "model");
        using (Engine engine = Load())
        using (Cache cache = engine.CreateCache())
        {
            Expect(engine.Describe().Contains("\"tiers\":[{\"tier\":\"device\",\"chunks\":0,"), "facts of an engine");
            Expect(cache.Describe().StartsWith("{\"tokens\":0,"), "facts of a cache");
        }
    }

    static void LogAndExceptionInIt()
    {
        int lines = 0;
        var options = new EngineOptions
        {
            Device = "auto",
            NumPages = 8,
            Log = (severity, line) =>
            {
                Interlocked.Increment(ref lines);
                throw new Exception("an exception of the log function");
            },
        };
        using (var engine = new Engine(model, options))
        {
            engine.Prefill(new[] { 1, 2, 3 }, Level.System).Dispose();
        }
        Expect(lines > 0, "no line: without a GPU the library says that it took the CPU");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Leave(Engine engine, int round)
    {
        var other = new Engine(model, new EngineOptions { Device = "cpu", NumPages = 8 });
        other.CreateTokenizer().CreateTextStream();
        other.CreateTokenizer().CreateChatFormat("plain");
        other.CreateCache(new[] { other.Prefill(new[] { 1, 2, round }, Level.Context) }).Fork();
        engine.CreateCache().Extend(new[] { 1, 2, 3 });
    }

    /// Handles that nobody disposes of are freed by the garbage collector, in whatever order it finds them.
    static void Finalizers()
    {
        using (Engine engine = Load())
        {
            long before = engine.Query(EngineFact.PagesFree);
            var thread = new Thread(() =>
            {
                for (int round = 0; round < 20; ++round) Leave(engine, round);
            });
            thread.Start();
            thread.Join();
            long used = before - engine.Query(EngineFact.PagesFree);
            Expect(used >= 20, "the caches use no pages: nothing is tested here");
            // Mono's collector looks for references on stacks conservatively, and may take a few stale ones for real.
            long kept = used;
            for (int i = 0; i < 100 && kept > used / 4; ++i)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(10);
                kept = before - engine.Query(EngineFact.PagesFree);
            }
            Expect(kept <= used / 4, kept + " of " + used + " pages are still used after the garbage collection");
        }
    }

    static void InThreads(int count, Action<int> body)
    {
        var problems = new List<Exception>();
        Thread[] threads = Enumerable.Range(0, count).Select(number => new Thread(() =>
        {
            try
            {
                body(number);
            }
            catch (Exception problem)
            {
                lock (problems) problems.Add(problem);
            }
        })).ToArray();
        foreach (Thread thread in threads) thread.Start();
        foreach (Thread thread in threads) thread.Join();
        if (problems.Count > 0) throw new AggregateException(problems);
    }

    static void SixteenThreads()
    {
        using (Engine engine = Load())
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        using (TextStream stream = tokenizer.CreateTextStream())
        using (ChatFormat format = tokenizer.CreateChatFormat("plain"))
        using (Chunk chunk = engine.Prefill(
            tokenizer.Encode("<|user|> Name the place.<|assistant|>", EncodeFlags.AddBos), Level.System))
        using (Cache cache = engine.CreateCache(new[] { chunk }))
        {
            int[] expected;
            using (Cache fork = cache.Fork()) expected = Greedy(fork, 4);
            var messages = new[] { new Message(Role.User, "<|user|> Name the place."), new Message(Role.Assistant, "Jewick") };
            RenderedChat rendered = format.Render(messages);
            InThreads(16, number =>
            {
                for (int round = 0; round < 3; ++round)
                {
                    using (Cache mine = number % 2 == 0 ? cache.Fork() : engine.CreateCache(new[] { chunk }))
                    {
                        Expect(Greedy(mine, 4).SequenceEqual(expected), "other tokens");
                    }
                    using (Cache mine = cache.Fork())
                    using (Generation generation = mine.Generate(new int[0], Exactly(4)))
                    {
                        int[] drawn = generation.AsEnumerable().SelectMany(piece => piece.Tokens).ToArray();
                        Expect(drawn.SequenceEqual(expected), "a generation's other tokens");
                    }
                    stream.Push(7);
                    Expect(format.Render(messages).Tokens.SequenceEqual(rendered.Tokens), "another chat");
                    int bad = 5000 + 1000 * number + round;
                    var problem = Throws<NanolithException>(() => engine.Prefill(new[] { bad }, Level.Context), "Prefill");
                    Expect(problem.Message.Contains(bad.ToString()), problem.Message);
                }
            });
        }
    }

    /// Each call either works or says that its value was disposed of.
    static void DisposeDuringCalls()
    {
        for (int round = 0; round < 5; ++round)
        {
            Engine engine = Load();
            Tokenizer tokenizer = engine.CreateTokenizer();
            ChatFormat format = tokenizer.CreateChatFormat("plain");
            Chunk chunk = engine.Prefill(new[] { 1, 7, 9 }, Level.System);
            Cache cache = engine.CreateCache(new[] { chunk });
            InThreads(17, number =>
            {
                if (number == 16)
                {
                    Thread.Sleep(20);
                    foreach (IDisposable value in new IDisposable[] { engine, chunk, tokenizer, format, cache }) value.Dispose();
                    return;
                }
                try
                {
                    while (true)
                    {
                        Cache.DecodeStep(new[] { cache });
                        engine.CreateCache(new[] { chunk }).Dispose();
                        tokenizer.Encode("x");
                        format.Render(new[] { new Message(Role.User, "x") });
                    }
                }
                catch (ObjectDisposedException)
                {
                }
            });
        }
    }

    /// What glibc's mallinfo2 tells.
    [StructLayout(LayoutKind.Sequential)]
    struct HeapInfo
    {
        public UIntPtr Arena, FreeBlocks, FastBlocks, MappedBlocks, Mapped, Most, FastBytes, GivenOut, Free, Top;
    }

    [DllImport("libc.so.6")]
    static extern HeapInfo mallinfo2();

    static long HeapBytes()
    {
        HeapInfo info = mallinfo2();
        return (long)info.GivenOut + (long)info.Mapped;
    }

    static long ResidentBytes()
    {
        return long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4096;
    }

    /// Whether so many rounds, after as many to warm up, leave memory behind. What the heaps have given out tells nearly
    /// exactly; what the process has in memory also shows what is mapped, but varies with the heaps' holes and threads.
    /// So what leaks is what grows every time: the rest settles.
    static bool Grows(string what, int count, Action round)
    {
        for (int i = 0; i < count; ++i) round();
        for (int attempt = 0; attempt < 3; ++attempt)
        {
            long managed = ManagedBytes(), resident = ResidentBytes(), heap = HeapBytes();
            for (int i = 0; i < count; ++i) round();
            managed = ManagedBytes() - managed;
            heap = HeapBytes() - heap;
            resident = ResidentBytes() - resident;
            Console.WriteLine("{0} {1}: C#'s heap {2} bytes more, C's heap {3} bytes more, resident {4} KiB more", count,
                what, managed, heap, resident / 1024);
            if (managed < 1 << 20 && heap < 64 << 10 && resident < 32 << 20) return false;
        }
        return true;
    }

    static long ManagedBytes()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        return GC.GetTotalMemory(true);
    }

    /// 10,000 rounds of everything but engines, which load a model, and 100 of these.
    static void Rounds()
    {
        using (Engine engine = Load())
        using (Chunk chunk = engine.Prefill(new[] { 1, 7, 9 }, Level.System))
        {
            Expect(!Grows("rounds", 10000, () =>
            {
                using (Tokenizer tokenizer = engine.CreateTokenizer())
                using (TextStream stream = tokenizer.CreateTextStream())
                using (ChatFormat format = tokenizer.CreateChatFormat("plain"))
                using (Chunk again = engine.Prefill(new[] { 1, 7, 9 }, Level.System))
                using (Cache cache = engine.CreateCache(new[] { chunk, again },
                    new CacheOptions { Composition = Composition.Independent }))
                {
                    stream.Push(273);
                    Expect(format.Render(new[] { new Message(Role.User, "Name") }).Ends.Length == 1, "ends");
                    cache.SetSampling(new SamplingOptions { Temperature = 1 });
                    using (Cache fork = cache.Fork())
                    using (Generation generation = fork.Generate(new int[0], Endless()))
                    {
                        Expect(generation.Descriptor >= 0, "descriptor");
                    }
                    GenerationOptions changing = Endless();
                    changing.Logits = (tokens, logits) => true;
                    cache.Generate(new[] { 7 }, changing).Dispose();
                    Throws<NanolithException>(() => tokenizer.Find("no such piece"), "Find");
                }
            }), "memory grows");
        }
        Expect(!Grows("engines", 100, () => Load().Dispose()), "memory grows");
        // What does leak is noticed, on either heap.
        var forgotten = new List<object>();
        using (var tokenizer = new Tokenizer(model))
        {
            Expect(Grows("forgotten streams", 10000, () => forgotten.Add(tokenizer.CreateTextStream())), "unnoticed");
            Expect(Grows("forgotten texts", 10000, () => forgotten.Add(new byte[200])), "unnoticed");
        }
        GC.KeepAlive(forgotten);
        Console.WriteLine("test Rounds ok");
    }

    static void Query()
    {
        using (Engine engine = Load())
        {
            double best = double.PositiveInfinity;
            for (int run = 0; run < 20; ++run)
            {
                Stopwatch watch = Stopwatch.StartNew();
                for (int i = 0; i < 100000; ++i) engine.Query(EngineFact.NumLayers);
                best = Math.Min(best, watch.Elapsed.TotalMilliseconds * 10);
            }
            Console.WriteLine("query: {0:0} ns", best);
        }
    }
}
