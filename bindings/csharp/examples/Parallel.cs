// Several conversations at once, all of them after the same records: the engine answers them in batches.
//   Parallel [MODEL_FOLDER]
using System;
using System.Linq;
using System.Threading.Tasks;
using Nanolith;

static class ParallelConversations
{
    const string SystemPrompt =
        "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";

    const string Records =
        "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. " +
        "Beso Bralm paid exactly 39 crowns.<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. " +
        "Boso Polm used badge TQ81. Boso Polm worked in Jewick.";

    static readonly string[] Questions =
    {
        "Name the place where Boso Polm worked.",
        "Name the place where Beso Bralm stayed.",
        "Name the day when Beso Bralm arrived.",
        "Name the day when Boso Polm left.",
    };

    static void Main(string[] arguments)
    {
        string model = arguments.Length > 0 ? arguments[0] : "examples/model";
        using (var engine = new Engine(model))
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        using (Chunk system = engine.Prefill(tokenizer.Encode(SystemPrompt, EncodeFlags.AddBos), Level.System))
        using (Chunk records = engine.Prefill(tokenizer.Encode(Records), Level.Context, new[] { system }))
        using (Cache context = engine.CreateCache(new[] { system, records }))
        {
            Task<string>[] tasks = Questions.Select(question => Answer(context, tokenizer, question)).ToArray();
            Task.WaitAll(tasks);
            for (int i = 0; i < tasks.Length; ++i)
            {
                Console.WriteLine(Questions[i] + " " + tasks[i].Result);
            }
        }
    }

    /// Asks in a fork, which shares the context's pages. With C# 8: await foreach (Piece piece in generation)
    static async Task<string> Answer(Cache context, Tokenizer tokenizer, string question)
    {
        int[] tokens = tokenizer.Encode("<|user|> " + question + "<|assistant|>");
        using (Cache cache = context.Fork())
        using (Generation generation = cache.Generate(tokens, new GenerationOptions { MaxTokens = 32 }))
        {
            string text = await generation.ReadTextAsync();
            return text.Trim();
        }
    }
}
