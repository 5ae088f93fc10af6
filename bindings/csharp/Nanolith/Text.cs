using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Nanolith
{
    /// <summary>Strings between the two sides.</summary>
    internal static class Text
    {
        /// <summary>A string of the library that ends with NUL.</summary>
        internal static string FromNative(IntPtr text)
        {
            int length = 0;
            while (Marshal.ReadByte(text, length) != 0)
            {
                ++length;
            }
            return FromNative(text, length);
        }

        internal static string FromNative(IntPtr text, int length)
        {
            var bytes = new byte[length];
            Marshal.Copy(text, bytes, 0, length);
            return Encoding.UTF8.GetString(bytes);
        }

        internal static byte[] ToNative(string text, string name)
        {
            Call.NotNull(text, name);
            return Encoding.UTF8.GetBytes(text);
        }
    }
}
