namespace Nanolith
{
    /// <summary>The library itself.</summary>
    public static class Library
    {
        /// <summary>The version of libnanolith at run time, as "0.1.0".</summary>
        public static string Version
        {
            get { return Text.FromNative(Native.nl_version()); }
        }
    }
}
