/* The script: a mapped text file whose first line counts its versions, read again whenever that line is another. */
#include "stub.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 256 * 1024, VERSION_BYTES = 11 };

state_t state;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int64_t delivered;

static const char *script;         /* the mapping */
static char path[4096], spoken[4096];
static char version[VERSION_BYTES]; /* of state */
static char text[FILE_BYTES + 1];
static int attached;                /* nvmlInit less nvmlShutdown */
static long long session;           /* the script's number when the first attached */
static int news = -1;               /* the test's pipe */

void say(const char *format, ...) {
	char line[256];
	va_list args;
	if (news < 0)
		return;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n > 0 && write(news, line, (size_t)n) != n)
		return; /* nobody reads: the test does not care */
}

static void set(device_t *d, const char *key, const char *value) {
	const struct { const char *key; long long *field; } numbers[] = {
		{"util", &d->util}, {"power", &d->power}, {"energy", &d->energy}, {"throttle", &d->throttle}, {"ecc", &d->ecc},
		{"recovery", &d->recovery}, {"remap_pending", &d->pending}, {"remap_failure", &d->failure}, {"gpm", &d->gpm},
		{"gpm_support", &d->gpm_support}, {"ring_whole", &d->ring_whole}, {"persistence", &d->persistence}, {"events", &d->events},
		{"memory_total", &d->memory_total}, {"memory_used", &d->memory_used}, {"memory_reserved", &d->memory_reserved},
		{"mig", &d->mig}, {"max_slices", &d->max_slices}, {"gi", &d->gi}, {"ci", &d->ci}, {"gi_slices", &d->gi_slices},
		{"ci_slices", &d->ci_slices}, {"attribute_mb", &d->attribute_mb},
	};
	const struct { const char *key; char *field; size_t size; } texts[] = {
		{"uuid", d->uuid, sizeof d->uuid}, {"serial", d->serial, sizeof d->serial},
		{"name", d->name, sizeof d->name}, {"pci", d->pci, sizeof d->pci},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(key, numbers[i].key) == 0)
			*numbers[i].field = (long long)strtoull(value, NULL, 0);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(key, texts[i].key) == 0)
			snprintf(texts[i].field, texts[i].size, "%s", value);
}

static void rule(device_t *d, const char *call, int code, int hang) {
	if (d->rule_count == MAX_RULES)
		return;
	rule_t *r = &d->rules[d->rule_count++];
	snprintf(r->call, sizeof r->call, "%s", call);
	r->code = code;
	r->hang = hang;
}

/* ring reads "time:value time:value"; an empty one is supported and has nothing. */
static void ring(device_t *d, char *value) {
	char *rest = NULL;
	d->ring = 0;
	for (char *entry = strtok_r(value, " ", &rest); entry != NULL; entry = strtok_r(NULL, " ", &rest)) {
		char *colon = strchr(entry, ':');
		if (colon == NULL || d->ring == MAX_RING)
			return;
		d->ring_at[d->ring] = strtoll(entry, NULL, 10);
		d->ring_value[d->ring++] = (int64_t)strtoull(colon + 1, NULL, 0);
	}
}

static void empty(device_t *d, int index, int slice) {
	memset(d, 0, sizeof *d);
	d->index = index;
	d->slice = slice;
	d->util = d->power = d->energy = d->throttle = d->ecc = d->recovery = d->pending = d->failure = d->gpm = NONE;
	d->persistence = d->events = d->memory_total = d->memory_used = d->memory_reserved = d->gpm_support = NONE;
	d->mig = d->max_slices = d->gi = d->ci = d->gi_slices = d->ci_slices = d->attribute_mb = NONE;
	d->ring_whole = d->ring = NONE;
}

/* line reads "SCOPE KEY VALUE": scope is node, gpu0 or gpu0.1. */
static void line(char *l) {
	char scope[MAX_TEXT], key[MAX_TEXT];
	int used = 0, gpu = 0, slice = NONE;
	if (sscanf(l, "%63s %63s%n", scope, key, &used) != 2)
		return;
	char *value = l + used + (l[used] == ' ');
	device_t *d = &state.node;
	if (strcmp(scope, "node") != 0) {
		if (sscanf(scope, "gpu%d.%d", &gpu, &slice) < 1 || gpu < 0 || gpu >= MAX_GPUS || slice >= MAX_SLICES)
			return;
		d = slice == NONE ? &state.gpus[gpu] : &state.slices[gpu][slice];
		d->used = 1;
		if (slice == NONE && gpu >= state.count)
			state.count = gpu + 1;
	}
	char call[MAX_TEXT];
	int code = 0;
	event_t *e = &state.events[state.event_count];
	if (strcmp(key, "fail") == 0 && sscanf(value, "%63s %d", call, &code) == 2)
		rule(d, call, code, 0);
	else if (strcmp(key, "hang") == 0 && sscanf(value, "%63s", call) == 1)
		rule(d, call, 0, 1);
	else if (strcmp(key, "ring") == 0)
		ring(d, value);
	else if (strcmp(key, "driver") == 0)
		snprintf(state.driver, sizeof state.driver, "%s", value);
	else if (strcmp(key, "nvml") == 0)
		snprintf(state.nvml, sizeof state.nvml, "%s", value);
	else if (strcmp(key, "session") == 0)
		state.session = strtoll(value, NULL, 10);
	else if (strcmp(key, "event") == 0 && state.event_count < MAX_EVENTS &&
		sscanf(value, "%ld %d %llu %llu", &e->id, &e->gpu, &e->type, &e->data) == 4)
		state.event_count++;
	else
		set(d, key, value);
}

void refresh(void) {
	char now[VERSION_BYTES];
	if (script == NULL)
		return;
	memcpy(now, script, VERSION_BYTES);
	if (now[0] == ' ' || memcmp(now, version, VERSION_BYTES) == 0)
		return;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	memcpy(text, script, FILE_BYTES);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (memcmp(now, script, VERSION_BYTES) != 0)
		return; /* written in this moment: the next call reads it */
	memcpy(version, now, VERSION_BYTES);
	memset(state.driver, 0, sizeof state.driver);
	memset(state.nvml, 0, sizeof state.nvml);
	state.session = state.count = state.event_count = 0;
	empty(&state.node, NONE, NONE);
	for (int i = 0; i < MAX_GPUS; i++) {
		empty(&state.gpus[i], i, NONE);
		for (int k = 0; k < MAX_SLICES; k++)
			empty(&state.slices[i][k], i, k);
	}
	char *rest = NULL;
	for (char *l = strtok_r(text + VERSION_BYTES, "\n", &rest); l != NULL; l = strtok_r(NULL, "\n", &rest))
		line(l);
}

/* map opens the script that the environment names now, which a later session may name anew. */
static int map(void) {
	const char *name = getenv("NVML_STUB"), *pipe = getenv("NVML_STUB_NEWS");
	if (name == NULL)
		return 0;
	if (script == NULL || strcmp(path, name) != 0) {
		int fd = open(name, O_RDONLY | O_CLOEXEC);
		void *at = fd < 0 ? MAP_FAILED : mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
		if (at == MAP_FAILED)
			return 0;
		if (script != NULL)
			munmap((void *)script, FILE_BYTES);
		script = at;
		memset(version, 0, sizeof version);
		delivered = 0;
		snprintf(path, sizeof path, "%s", name);
	}
	if (pipe != NULL && strcmp(spoken, pipe) != 0) {
		if (news >= 0)
			close(news);
		news = open(pipe, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		snprintf(spoken, sizeof spoken, "%s", pipe);
	}
	return 1;
}

ret_t attach(void) {
	if (attached == 0 && !map())
		return 999;
	refresh();
	for (int i = 0; i < state.node.rule_count; i++)
		if (strcmp(state.node.rules[i].call, "nvmlInit_v2") == 0 && state.node.rules[i].code != OK)
			return state.node.rules[i].code;
	if (attached++ == 0)
		session = state.session;
	say("init %d\n", attached);
	return OK;
}

ret_t detach(void) {
	if (attached == 0)
		return UNINITIALIZED;
	attached--;
	say("shutdown %d\n", attached);
	return OK;
}

int watch(void) {
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd >= 0)
		inotify_add_watch(fd, path, IN_MODIFY);
	return fd;
}

void wake(int watcher, int millis) {
	struct pollfd p = {.fd = watcher, .events = POLLIN};
	char drained[4096];
	if (poll(&p, 1, millis) > 0)
		while (read(watcher, drained, sizeof drained) > 0)
			;
}

static rule_t *found(device_t *d, const char *call) {
	for (int i = 0; d != NULL && i < d->rule_count; i++)
		if (strcmp(d->rules[i].call, call) == 0 || strcmp(d->rules[i].call, "*") == 0)
			return &d->rules[i];
	return NULL;
}

/* hang blocks without the lock until the script has no such rule any more. */
static void hang(const char *call, device_t *d) {
	int watcher = -1;
	rule_t *r = found(d, call);
	if (r == NULL || !r->hang)
		return;
	watcher = watch();
	say("hang gpu%d %s\n", d->index, call);
	for (;;) {
		refresh();
		r = found(d, call);
		if (r == NULL || !r->hang)
			break;
		pthread_mutex_unlock(&lock);
		wake(watcher, 60000);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	close(watcher); /* takes the kernel some milliseconds */
	pthread_mutex_lock(&lock);
	say("released gpu%d %s\n", d->index, call);
}

ret_t enter(const char *call, device_t *d) {
	ret_t r = OK;
	rule_t *fails;
	pthread_mutex_lock(&lock);
	refresh();
	if (d == NULL)
		d = &state.node;
	hang(call, d);
	if (attached == 0 || session != state.session)
		r = UNINITIALIZED;
	else if ((fails = found(d, call)) != NULL)
		r = fails->code;
	else if (d != &state.node && !d->used)
		r = INVALID_ARGUMENT;
	if (r != OK)
		pthread_mutex_unlock(&lock);
	return r;
}

void leave(void) { pthread_mutex_unlock(&lock); }

long long unsaid(long long value) { return value == NONE ? NOT_SUPPORTED : OK; }
