using System;
using System.Collections.Generic;
using System.Threading;

namespace Nanolith
{
    /// <summary>
    /// Does work that waits, in order, on a thread of its own: threads of the pool are few, and others need them. The
    /// thread is started when it is needed first, and ends after a second without work.
    /// </summary>
    internal sealed class WaitingThread
    {
        private const int IdleMilliseconds = 1000;

        private readonly Queue<Action> work = new Queue<Action>();
        private bool running;

        internal void Run(Action action)
        {
            lock (work)
            {
                work.Enqueue(action);
                Monitor.Pulse(work);
                if (running) return;
                var thread = new Thread(Loop) { IsBackground = true, Name = "Nanolith waits" };
                thread.Start();
                running = true;
            }
        }

        private void Loop()
        {
            while (true)
            {
                Action next;
                lock (work)
                {
                    if (work.Count == 0) Monitor.Wait(work, IdleMilliseconds);
                    if (work.Count == 0)
                    {
                        running = false;
                        return;
                    }
                    next = work.Dequeue();
                }
                next();
            }
        }
    }
}
