/* The calls about the session and its devices, the events, and GPM. */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ret_t nvmlInit_v2(void) {
	pthread_mutex_lock(&lock);
	ret_t r = attach();
	pthread_mutex_unlock(&lock);
	return r;
}

ret_t nvmlShutdown(void) {
	pthread_mutex_lock(&lock);
	ret_t r = detach();
	pthread_mutex_unlock(&lock);
	return r;
}

const char *nvmlErrorString(ret_t r) {
	static const struct { ret_t code; const char *text; } words[] = {
		{OK, "Success"}, {UNINITIALIZED, "Uninitialized"}, {9, "Driver Not Loaded"}, {15, "GPU is lost"}, {999, "Unknown Error"},
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i].code == r)
			return words[i].text;
	return "Error of the stub";
}

static ret_t word(const char *from, char *to, unsigned int size) {
	if (from[0] == '\0')
		return NOT_SUPPORTED;
	snprintf(to, size, "%s", from);
	return OK;
}

ret_t nvmlSystemGetDriverVersion(char *to, unsigned int size) {
	ENTER(NULL);
	LEAVE(word(state.driver, to, size));
}

ret_t nvmlSystemGetNVMLVersion(char *to, unsigned int size) {
	ENTER(NULL);
	LEAVE(word(state.nvml, to, size));
}

ret_t nvmlDeviceGetCount_v2(unsigned int *count) {
	ENTER(NULL);
	*count = (unsigned int)state.count;
	LEAVE(OK);
}

/* The handle is asked with the rules of the GPU at that index: a lost one has none. */
ret_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **d) {
	if (index >= MAX_GPUS)
		return INVALID_ARGUMENT;
	ENTER(&state.gpus[index]);
	*d = &state.gpus[index];
	LEAVE(OK);
}

typedef struct set_st {
	int used, watcher;
	unsigned long long types[MAX_GPUS];
} set_t;

typedef struct {
	device_t *device;
	unsigned long long type, data;
	unsigned int gi, ci;
} event_data_t;

static set_t sets[MAX_SETS];
static int told;          /* the wait after a delivery is told: what it gave is worked on by then */

ret_t nvmlEventSetCreate(set_t **set) {
	ENTER(NULL);
	for (int i = 0; i < MAX_SETS; i++)
		if (!sets[i].used) {
			memset(&sets[i], 0, sizeof sets[i]);
			sets[i].used = 1;
			sets[i].watcher = watch();
			*set = &sets[i];
			LEAVE(OK);
		}
	LEAVE(20);
}

ret_t nvmlEventSetFree(set_t *set) {
	pthread_mutex_lock(&lock);
	int watcher = set->watcher;
	set->used = 0;
	pthread_mutex_unlock(&lock);
	close(watcher);
	return OK;
}

ret_t nvmlDeviceGetSupportedEventTypes(device_t *d, unsigned long long *types) {
	ENTER(d);
	*types = (unsigned long long)d->events;
	LEAVE(unsaid(d->events));
}

ret_t nvmlDeviceRegisterEvents(device_t *d, unsigned long long types, set_t *set) {
	ENTER(d);
	if (d->events == NONE || (types & ~(unsigned long long)d->events) != 0)
		LEAVE(NOT_SUPPORTED);
	set->types[d->index] |= types;
	say("registered gpu%d %llu\n", d->index, types);
	LEAVE(OK);
}

/* next takes the oldest event that this set is registered for; what nobody is registered for is lost, as it is with NVML. */
static int next(set_t *set, event_data_t *data) {
	for (int i = 0; i < state.event_count; i++) {
		event_t *e = &state.events[i];
		if (e->id <= delivered || e->gpu < 0 || e->gpu >= MAX_GPUS)
			continue;
		delivered = e->id;
		if ((set->types[e->gpu] & e->type) == 0) {
			say("missed gpu%d %llu %llu\n", e->gpu, e->type, e->data);
			continue;
		}
		*data = (event_data_t){&state.gpus[e->gpu], e->type, e->data, 0xFFFFFFFFu, 0xFFFFFFFFu};
		say("event gpu%d %llu %llu\n", e->gpu, e->type, e->data);
		told = 1;
		return 1;
	}
	return 0;
}

static long long now_millis(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

ret_t nvmlEventSetWait_v2(set_t *set, event_data_t *data, unsigned int millis) {
	ENTER(NULL);
	long long end = now_millis() + millis, rest = 0;
	ret_t r = TIMEOUT;
	if (told)
		say("waits\n");
	told = 0;
	for (;;) {
		refresh();
		if (next(set, data)) {
			r = OK;
			break;
		}
		if ((rest = end - now_millis()) <= 0)
			break;
		leave();
		wake(set->watcher, (int)rest);
		pthread_mutex_lock(&lock);
	}
	LEAVE(r);
}

#ifndef WITHOUT_gpm
/* A GPM sample keeps what the script said when it was taken; a metric of two of them is what the later one kept. */
typedef struct { long long taken, value; ret_t ret; } gpm_sample_t;

typedef struct {
	unsigned int id;
	ret_t ret;
	double value;
	const char *info[3];
} metric_t;

typedef struct {
	unsigned int version, count;
	gpm_sample_t *first, *second;
	metric_t metrics[477];
} metrics_t;

typedef struct { unsigned int version, supported; } support_t;

ret_t nvmlGpmQueryDeviceSupport(device_t *d, support_t *support) {
	ENTER(d);
	support->supported = d->gpm_support == 1;
	LEAVE(unsaid(d->gpm_support));
}

ret_t nvmlGpmSampleAlloc(gpm_sample_t **sample) {
	ENTER(NULL);
	*sample = calloc(1, sizeof **sample);
	LEAVE(OK);
}

ret_t nvmlGpmSampleFree(gpm_sample_t *sample) {
	free(sample);
	return OK;
}

/* The metric alone may fail, as "gpm.1": the call succeeds all the same. */
static ret_t metric_code(device_t *d) {
	for (int i = 0; i < d->rule_count; i++)
		if (strcmp(d->rules[i].call, "gpm.1") == 0)
			return d->rules[i].code;
	return OK;
}

ret_t nvmlGpmSampleGet(device_t *d, gpm_sample_t *sample) {
	ENTER(d);
	*sample = (gpm_sample_t){1, d->gpm, metric_code(d)};
	LEAVE(d->gpm_support == 1 ? OK : NOT_SUPPORTED);
}

ret_t nvmlGpmMigSampleGet(device_t *d, unsigned int gi, gpm_sample_t *sample) {
	ENTER(d);
	if (d->gpm_support != 1)
		LEAVE(NOT_SUPPORTED);
	for (int i = 0; i < MAX_SLICES; i++) {
		device_t *slice = &state.slices[d->index][i];
		if (slice->used && slice->gi == gi) {
			*sample = (gpm_sample_t){1, slice->gpm, metric_code(slice)};
			LEAVE(OK);
		}
	}
	LEAVE(INVALID_ARGUMENT);
}

/* Metrics are in thousandths in the script, so that it stays a text of whole numbers. Only id 1 is played. */
ret_t nvmlGpmMetricsGet(metrics_t *m) {
	ENTER(NULL);
	if (m->version != 1 || !m->first->taken || !m->second->taken)
		LEAVE(INVALID_ARGUMENT);
	for (unsigned int i = 0; i < m->count; i++) {
		m->metrics[i].ret = m->metrics[i].id == 1 && m->second->value != NONE ? m->second->ret : NOT_SUPPORTED;
		m->metrics[i].value = (double)m->second->value / 1000;
	}
	LEAVE(OK);
}
#endif
