// A chat as a list of messages, split into chunks along them: the system prompt and each document are messages of their
// own, computed for the first question and found in the store by the second.
//   Messages [MODEL_FOLDER [FORMAT]]
using System;
using System.Collections.Generic;
using System.Linq;
using Nanolith;

static class Messages
{
    static readonly Message[] Context =
    {
        new Message(Role.System,
            "Each document is one record. Answer each question from the records, in as few words as possible."),
        new Message(Role.User, "Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. " +
            "Boso Polm paid exactly 50 crowns."),
        new Message(Role.User, "Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on " +
            "20 September. Beso Bralm paid exactly 39 crowns."),
    };

    static readonly string[] Questions =
    {
        "Name the key that Beso Bralm got.", "Name the place where Boso Polm stayed.",
    };

    static void Main(string[] arguments)
    {
        string model = arguments.Length > 0 ? arguments[0] : "examples/model";
        using (var engine = new Engine(model))
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        {
            bool ownMarks;
            using (ChatFormat format = OpenFormat(tokenizer, arguments.Length > 1 ? arguments[1] : "", out ownMarks))
            {
                Console.WriteLine("The chat format is " + format.Name);
                foreach (string question in Questions)
                {
                    Console.WriteLine("\n> " + question);
                    List<Message> messages = Context.Concat(new[] { new Message(Role.User, question) }).ToList();
                    Ask(engine, format, ownMarks ? WithOwnMarks(messages) : messages);
                }
            }
        }
    }

    /// The named format, or the model's; "plain" where the model has none that is known.
    static ChatFormat OpenFormat(Tokenizer tokenizer, string name, out bool ownMarks)
    {
        ownMarks = false;
        try
        {
            return tokenizer.CreateChatFormat(name);
        }
        catch (NanolithException problem)
        {
            if (name != "" || (problem.Status != Status.NotFound && problem.Status != Status.Unsupported)) throw;
            Console.Error.WriteLine(problem.Message);
            ownMarks = true;
            return tokenizer.CreateChatFormat("plain");
        }
    }

    /// The model in examples/model has marks of its own, which no format here knows: then the caller writes them.
    static List<Message> WithOwnMarks(IEnumerable<Message> messages)
    {
        var before = new[] { "<|system|> ", "<|doc|> ", "<|doc|> ", "<|user|> " };
        var after = new[] { "", "", "", "<|assistant|>" };
        return messages.Select((message, i) => new Message(message.Role, before[i] + message.Content + after[i])).ToList();
    }

    static void Ask(Engine engine, ChatFormat format, List<Message> messages)
    {
        RenderedChat chat = format.Render(messages, ChatFlags.AddGenerationPrompt);
        // All messages but the last become chunks. Those without tokens have none: their text is in a later part.
        int last = messages.Count - 1;
        var chunks = new List<Chunk>();
        for (int i = 0; i < last; ++i)
        {
            int[] tokens = chat.Message(i);
            if (tokens.Length == 0) continue;
            Chunk chunk = engine.Prefill(tokens, messages[i].Role == Role.System ? Level.System : Level.Context);
            bool found = chunk.Query(ChunkFact.TokensComputed) == 0;
            Console.WriteLine("  message {0}: {1} tokens, {2}", i + 1, tokens.Length,
                found ? "found in the store" : "computed");
            chunks.Add(chunk);
        }
        using (Cache cache = engine.CreateCache(chunks, new CacheOptions { Composition = Composition.Independent }))
        using (Generation generation = cache.Generate(chat.From(last), new GenerationOptions { MaxTokens = 48 }))
        {
            foreach (Piece piece in generation)
            {
                Console.Write(piece.Text);
            }
            Console.WriteLine();
        }
        foreach (Chunk chunk in chunks)
        {
            chunk.Dispose(); // the store keeps it for the next chat
        }
    }
}
