// Shows the tokens of a text.
//   Tokenize [MODEL_FOLDER [TEXT]]
using System;
using System.Text;
using Nanolith;

static class Tokenize
{
    static void Main(string[] arguments)
    {
        string model = arguments.Length > 0 ? arguments[0] : "examples/model";
        string text = arguments.Length > 1 ? arguments[1] : "<|user|> Name the place where Boso Polm worked: Zürich?";
        Console.OutputEncoding = new UTF8Encoding(false);
        using (var tokenizer = new Tokenizer(model))
        {
            int[] tokens = tokenizer.Encode(text, EncodeFlags.AddBos);
            foreach (int token in tokens)
            {
                Console.WriteLine(token + " " + tokenizer.Piece(token));
            }
            Console.WriteLine(tokenizer.Decode(tokens));
        }
    }
}
