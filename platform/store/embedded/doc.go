// Package embedded runs the real ClickHouse engine inside this process, so that one machine needs no database server.
//
// It owns: finding, fetching and checking libchdb (Library), loading it (Load), a data directory with a pool of
// sessions (Open, Engine), the part of ClickHouse's HTTP interface that the official Go client speaks (Engine is an
// http.Handler), and that client's options, in process (Engine.ClientOptions) or over a unix socket (Listen,
// Engine.Serve, SocketOptions).
//
// It does not own: tables, migrations, what is written when, or table settings such as fsync_after_insert, which are
// the store's. It has no accounts: who can reach the listener can read and write everything, so listen on a unix
// socket (mode 0600) or on loopback of a machine that is yours alone.
//
// What differs from a ClickHouse server:
//   - One data directory a process, and one process a directory. After every Engine of a directory is closed another
//     one can be opened. The library's authors warn that doing this many times in one process can abort it on macOS:
//     open once and keep it.
//   - Nothing stays in a session between requests. SET, USE, temporary tables and session_id are refused; settings,
//     the database and parameters travel as URL parameters with each request, which is how the client sends them.
//   - async_insert is off and cannot be switched on: it acknowledges before rows are stored and ignores
//     insert_deduplication_token.
//   - Sessions run in UTC (session_timezone), whatever the machine's time zone, so a day starts at the same moment
//     on every machine.
//   - A result is held in memory until it is sent: read big tables in pages. Compressed requests are refused.
//   - A statement that has begun is not interrupted when its caller goes away; the client's deadline becomes
//     max_execution_time and ends it. An insert whose rows are still arriving is cancelled.
package embedded
