/*
 * A libnvidia-ml.so.1 that plays a script. Layouts and numbers are those of NVML's interface; nothing of the driver is here.
 *
 * script.c holds the script, calls.c the calls that read a device, session.c those about the session, the events and GPM.
 */
#ifndef STUB_H
#define STUB_H

#include <pthread.h>
#include <stdint.h>

typedef int ret_t; /* nvmlReturn_t */

enum {
	OK = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	TIMEOUT = 10,
};

enum {
	MAX_GPUS = 16,
	MAX_SLICES = 8,
	MAX_RING = 128,
	MAX_RULES = 16,  /* of one device: calls that fail or hang */
	MAX_EVENTS = 256,
	MAX_SETS = 64,
	MAX_TEXT = 64,
	NONE = -1, /* of a value: the script does not say it, the call is not supported */
};

/* A rule makes one call, or any ("*"), fail with a code or hang for as long as the script says so. */
typedef struct {
	char call[MAX_TEXT];
	int code, hang;
} rule_t;

typedef struct nvmlDevice_st {
	int index, slice, used; /* slice is NONE for a whole GPU */
	char uuid[96], serial[MAX_TEXT], name[96], pci[32];
	long long util, power, energy, throttle, ecc, recovery, pending, failure, gpm, persistence, events;
	long long memory_total, memory_used, memory_reserved, gpm_support;
	long long mig, max_slices, gi, ci, gi_slices, ci_slices, attribute_mb; /* mig: NONE, 0 or 1 */
	long long ring_whole; /* 1: samples are given again, whatever was taken before */
	int ring;        /* entries, or NONE */
	int64_t ring_at[MAX_RING], ring_value[MAX_RING];
	rule_t rules[MAX_RULES];
	int rule_count;
} device_t;

typedef struct {
	int64_t id;
	int gpu;
	unsigned long long type, data;
} event_t;

typedef struct {
	char driver[MAX_TEXT], nvml[MAX_TEXT];
	long long session, count; /* a new session number is a driver that was loaded anew */
	device_t node;            /* rules of calls that name no device */
	device_t gpus[MAX_GPUS], slices[MAX_GPUS][MAX_SLICES];
	event_t events[MAX_EVENTS];
	int event_count;
} state_t;

extern state_t state;
extern pthread_mutex_t lock;
extern int64_t delivered; /* the last event that was taken off the script */

/* enter takes the lock with the newest script and applies session and rules; when it is not OK, the lock is not held. */
ret_t enter(const char *call, device_t *d);
void leave(void);
void refresh(void); /* under the lock */
ret_t attach(void);
ret_t detach(void);
int watch(void);                    /* a descriptor that wakes when the script changes, or -1 */
void wake(int watcher, int millis); /* wait for that */
void say(const char *format, ...);  /* one line for the test */
long long unsaid(long long value);  /* NOT_SUPPORTED for NONE, else OK */

#define ENTER(d) \
	do { \
		ret_t entered = enter(__func__, (d)); \
		if (entered != OK) \
			return entered; \
	} while (0)
#define LEAVE(r) \
	do { \
		ret_t left = (r); \
		leave(); \
		return left; \
	} while (0)

#endif
