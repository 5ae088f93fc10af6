// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
#pragma warning disable SYSLIB1054
using System;
using System.Runtime.InteropServices;

namespace Nanolith
{
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate void NativeLogCallback(IntPtr user_data, int severity, IntPtr message, UIntPtr message_length);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int NativeProgressCallback(IntPtr user_data, double done);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int NativeLogitsCallback(IntPtr user_data, IntPtr tokens, UIntPtr num_tokens, IntPtr logits, UIntPtr num_logits);

    /// <summary>The functions of nanolith.h.</summary>
    internal static class Native
    {
        private const string Library = "libnanolith.so.0";

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern IntPtr nl_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_version_number();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern IntPtr nl_status_name(int status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern IntPtr nl_last_error();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_last_error_detail(int detail, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_create([In] byte[] path, UIntPtr path_length, IntPtr options, out IntPtr engine);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_engine_free(IntPtr engine);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_cancel(IntPtr engine);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_tenant(IntPtr engine, [In] byte[] salt, UIntPtr salt_length, out IntPtr tenant);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_query(IntPtr engine, int fact, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_describe(IntPtr engine, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_metrics(IntPtr engine, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_device(IntPtr engine, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_is_end_token(IntPtr engine, int token, out int is_end);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_engine_tokenizer(IntPtr engine, out IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_load([In] byte[] path, UIntPtr path_length, out IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_tokenizer_free(IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_encode(IntPtr tokenizer, [In] byte[] text, UIntPtr text_length, uint flags, [In, Out] int[] tokens, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_decode(IntPtr tokenizer, [In] int[] tokens, UIntPtr num_tokens, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_query(IntPtr tokenizer, int fact, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_find(IntPtr tokenizer, [In] byte[] piece, UIntPtr piece_length, out int token);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_tokenizer_piece(IntPtr tokenizer, int token, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_text_stream_create(IntPtr tokenizer, out IntPtr stream);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_text_stream_free(IntPtr stream);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_text_stream_push(IntPtr stream, int token, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_text_stream_finish(IntPtr stream, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chat_format_create(IntPtr tokenizer, [In] byte[] name, UIntPtr name_length, out IntPtr format);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_chat_format_free(IntPtr format);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chat_format_name(IntPtr format, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chat_format_render(IntPtr format, [In] int[] roles, [In] IntPtr[] contents, [In] UIntPtr[] content_lengths, UIntPtr num_messages, uint flags, [In, Out] UIntPtr[] ends, [In, Out] int[] tokens, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chat_format_render_json(IntPtr format, [In] byte[] request, UIntPtr request_length, uint flags, [In, Out] UIntPtr[] ends, UIntPtr num_ends, [In, Out] int[] tokens, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_create(IntPtr engine, IntPtr options, [In] IntPtr[] chunks, UIntPtr num_chunks, out IntPtr cache);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_cache_free(IntPtr cache);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_extend(IntPtr cache, [In] int[] tokens, UIntPtr num_tokens);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_score(IntPtr cache, [In] int[] tokens, UIntPtr num_tokens, [In, Out] float[] logprobs, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_score_next(IntPtr cache, [In] int[] tokens, UIntPtr num_tokens, [In] int[] candidates, UIntPtr num_candidates, [In, Out] float[] logprobs, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_embed(IntPtr cache, [In] int[] tokens, UIntPtr num_tokens, int pooling, uint flags, [In, Out] float[] vectors, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_fork(IntPtr cache, out IntPtr @fork);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_truncate(IntPtr cache, UIntPtr num_tokens);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_tokens(IntPtr cache, [In, Out] int[] tokens, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_set_sampling(IntPtr cache, IntPtr options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_cancel(IntPtr cache);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_query(IntPtr cache, int fact, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_describe(IntPtr cache, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_start(IntPtr cache, [In] int[] tokens, UIntPtr num_tokens, IntPtr options, out IntPtr generation);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_next(IntPtr generation, long timeout_ms, [In, Out] int[] tokens, UIntPtr token_capacity, out UIntPtr num_tokens, [In, Out] byte[] text, UIntPtr text_capacity, out UIntPtr text_length, out int end);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_logprobs(IntPtr generation, [In, Out] float[] logprobs, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_top_logprobs(IntPtr generation, [In, Out] int[] tokens, [In, Out] float[] logprobs, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_cancel(IntPtr generation);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_generation_free(IntPtr generation);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_query(IntPtr generation, int fact, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_generation_descriptor(IntPtr generation, out int descriptor);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_prefill(IntPtr engine, [In] int[] tokens, UIntPtr num_tokens, int level, [In] IntPtr[] before, UIntPtr num_before, out IntPtr chunk);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_retain(IntPtr chunk, out IntPtr again);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_chunk_free(IntPtr chunk);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_query(IntPtr chunk, int fact, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_set_priority(IntPtr chunk, int priority);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_save(IntPtr chunk, [In] byte[] path, UIntPtr path_length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_chunk_load(IntPtr engine, [In] byte[] path, UIntPtr path_length, out IntPtr chunk);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_save(IntPtr cache, [In] byte[] path, UIntPtr path_length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_load(IntPtr engine, [In] byte[] path, UIntPtr path_length, out IntPtr cache);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_create(int kind, out IntPtr options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void nl_options_free(IntPtr options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_int(IntPtr options, int option, long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_float(IntPtr options, int option, double value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_text(IntPtr options, int option, [In] byte[] text, UIntPtr text_length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_get_int(IntPtr options, int option, UIntPtr index, out long value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_get_float(IntPtr options, int option, UIntPtr index, out double value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_get_text(IntPtr options, int option, UIntPtr index, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_get_count(IntPtr options, int option, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_reset(IntPtr options, int option);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_log(IntPtr options, NativeLogCallback callback, IntPtr user_data);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_progress(IntPtr options, NativeProgressCallback callback, IntPtr user_data);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_options_set_logits(IntPtr options, NativeLogitsCallback callback, IntPtr user_data);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_decode_step([In] IntPtr[] caches, UIntPtr num_caches, [In, Out] int[] tokens);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_cache_logits(IntPtr cache, [In, Out] float[] logits, UIntPtr capacity, out UIntPtr count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_model_describe([In] byte[] path, UIntPtr path_length, int format, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_option_describe(int kind, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_option_bounds_int(int option, out long least, out long most, out long standard);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_option_bounds_float(int option, out double least, out double most, out double standard);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int nl_fact_describe(int kind, [In, Out] byte[] buffer, UIntPtr capacity, out UIntPtr length);
    }
}
