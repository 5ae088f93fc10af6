// Answers two questions from records that are computed once, each with the records in another order.
//   Chat [MODEL_FOLDER]
using System;
using System.Linq;
using Nanolith;

static class Chat
{
    const string SystemPrompt =
        "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";

    static readonly string[] Records =
    {
        "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. " +
            "Beso Bralm paid exactly 39 crowns.",
        "<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. " +
            "Jemi Nuld traded in Foham.",
        "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. " +
            "Boso Polm worked in Jewick.",
    };

    static void Main(string[] arguments)
    {
        string model = arguments.Length > 0 ? arguments[0] : "examples/model";
        using (var engine = new Engine(model))
        using (Tokenizer tokenizer = engine.CreateTokenizer())
        using (Chunk system = engine.Prefill(tokenizer.Encode(SystemPrompt, EncodeFlags.AddBos), Level.System))
        {
            Chunk[] records = Records.Select(text => engine.Prefill(tokenizer.Encode(text), Level.Context)).ToArray();
            Ask(engine, tokenizer, "Name the place where Boso Polm worked.",
                system, records[0], records[1], records[2]);
            Ask(engine, tokenizer, "Name the price that Jemi Nuld offered.",
                system, records[2], records[0], records[1]);
            foreach (Chunk record in records)
            {
                record.Dispose();
            }
        }
    }

    static void Ask(Engine engine, Tokenizer tokenizer, string question, params Chunk[] chunks)
    {
        Console.WriteLine("> " + question);
        using (Cache cache = engine.CreateCache(chunks, new CacheOptions { Composition = Composition.Independent }))
        {
            int[] tokens = tokenizer.Encode("<|user|> " + question + "<|assistant|>");
            using (Generation generation = cache.Generate(tokens, new GenerationOptions { MaxTokens = 32 }))
            {
                foreach (Piece piece in generation)
                {
                    Console.Write(piece.Text);
                }
            }
            Console.WriteLine();
            Console.WriteLine("  reused {0} tokens", cache.Query(CacheFact.TokensReused));
        }
    }
}
