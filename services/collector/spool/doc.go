// Package spool owns a collector's batches on disk from the moment they are closed until ten minutes after the log
// acknowledged them: append-only segment files, one CRC-32C per record.
//
// It does not own the batch (core/usage), when one is closed (collector.Recorder), or what the log holds
// (collector.Publisher).
//
// # Files
//
// A segment is named by a growing number, 00000001.spool. It is a sequence of records
//
//	length uint32 LE | CRC-32C of the rest uint32 LE | kind byte | body
//
// of five kinds: state (the first record of each segment: what is known of every node, so that segments can go
// from the oldest end), batch, mark (a node's batches up to a name are in the log), stop (the collector was ended as it should be)
// and beginning (a run samples a node from a second on, and no batch of that is here yet).
//
// # Durability
//
// Append writes all its batches at once and syncs the file: one sync for a group of any size. When it returns nil
// they survive a power loss; when it returns an error none was accepted, and what part of them may be found after a
// restart is simply sent. Marks are not synced by themselves: losing one repeats a publication, which the publisher
// recognises; they are synced before a segment is removed because of them. After a failed sync or an undone write that could not be undone the spool accepts nothing more until it
// is opened again, because what the disk holds is then unknown.
//
// A bad record at the end of the newest segment is a torn write: it is cut off and noted. A bad record in an older
// segment is damage, because that segment was synced whole before the next was begun: Open refuses and names the file.
//
// # Thinning
//
// The spool never grows beyond its limit. When a group does not fit, in this order:
//
//  1. the oldest segments go whose batches were all acknowledged, even if that was less than ten minutes ago;
//  2. the oldest segment that still holds batches with data is written anew: an acknowledged batch is left out, an
//     unsent one becomes a gap record: the same name, no device blocks, a gap with the reason thinned over all it spoke for, and
//     of those seconds only the first still spoken for, because a batch must speak for something. So sequences stay
//     gap-free. Stats counts batches and seconds lost in this way, for an alarm;
//  3. when everything unsent is thinned and the group still does not fit, Append returns ErrFull.
package spool
