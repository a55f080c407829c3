/* The calls that read one device. */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ret_t text(const char *from, char *to, unsigned int size) {
	if (from[0] == '\0')
		return NOT_SUPPORTED;
	if (strlen(from) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(to, from);
	return OK;
}

ret_t nvmlDeviceGetUUID(device_t *d, char *uuid, unsigned int size) {
	ENTER(d);
	LEAVE(text(d->uuid, uuid, size));
}

ret_t nvmlDeviceGetSerial(device_t *d, char *serial, unsigned int size) {
	ENTER(d);
	LEAVE(text(d->serial, serial, size));
}

ret_t nvmlDeviceGetName(device_t *d, char *name, unsigned int size) {
	ENTER(d);
	LEAVE(text(d->name, name, size));
}

typedef struct {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
} pci_t;

ret_t nvmlDeviceGetPciInfo_v3(device_t *d, pci_t *pci) {
	ENTER(d);
	memset(pci, 0, sizeof *pci);
	LEAVE(text(d->pci, pci->bus_id, sizeof pci->bus_id));
}

ret_t nvmlDeviceGetPersistenceMode(device_t *d, int *mode) {
	ENTER(d);
	*mode = (int)d->persistence;
	LEAVE(unsaid(d->persistence));
}

typedef struct { unsigned int gpu, memory; } utilization_t;

ret_t nvmlDeviceGetUtilizationRates(device_t *d, utilization_t *u) {
	ENTER(d);
	u->gpu = (unsigned int)d->util;
	u->memory = 3; /* the share of time in which memory was moved: never what is asked for */
	LEAVE(unsaid(d->util));
}

typedef struct { unsigned long long total, free, used; } memory_t;

ret_t nvmlDeviceGetMemoryInfo(device_t *d, memory_t *m) {
	ENTER(d);
	unsigned long long reserved = d->memory_reserved == NONE ? 0 : (unsigned long long)d->memory_reserved;
	m->total = (unsigned long long)d->memory_total;
	m->used = (unsigned long long)d->memory_used + reserved;
	m->free = m->total - m->used;
	LEAVE(unsaid(d->memory_total) || unsaid(d->memory_used) ? NOT_SUPPORTED : OK);
}

#ifndef WITHOUT_nvmlDeviceGetMemoryInfo_v2
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory2_t;

ret_t nvmlDeviceGetMemoryInfo_v2(device_t *d, memory2_t *m) {
	ENTER(d);
	m->total = (unsigned long long)d->memory_total;
	m->reserved = d->memory_reserved == NONE ? 0 : (unsigned long long)d->memory_reserved;
	m->used = (unsigned long long)d->memory_used;
	m->free = m->total - m->used - m->reserved;
	LEAVE(unsaid(d->memory_total) || unsaid(d->memory_used) ? NOT_SUPPORTED : OK);
}
#endif

ret_t nvmlDeviceGetPowerUsage(device_t *d, unsigned int *milliwatt) {
	ENTER(d);
	*milliwatt = (unsigned int)d->power;
	LEAVE(unsaid(d->power));
}

#ifndef WITHOUT_nvmlDeviceGetTotalEnergyConsumption
ret_t nvmlDeviceGetTotalEnergyConsumption(device_t *d, unsigned long long *millijoule) {
	ENTER(d);
	*millijoule = (unsigned long long)d->energy;
	LEAVE(unsaid(d->energy));
}
#endif

#ifndef WITHOUT_nvmlDeviceGetCurrentClocksEventReasons
ret_t nvmlDeviceGetCurrentClocksEventReasons(device_t *d, unsigned long long *reasons) {
	ENTER(d);
	*reasons = (unsigned long long)d->throttle;
	LEAVE(unsaid(d->throttle));
}
#endif

ret_t nvmlDeviceGetCurrentClocksThrottleReasons(device_t *d, unsigned long long *reasons) {
	ENTER(d);
	*reasons = (unsigned long long)d->throttle;
	LEAVE(unsaid(d->throttle));
}

typedef union { unsigned int u; unsigned long long ull; double d; } value_t;
typedef struct { unsigned long long at; value_t value; } sample_t;

/* Only the samples of type 1, GPU utilisation, are kept. */
ret_t nvmlDeviceGetSamples(device_t *d, int type, unsigned long long since, int *value_type, unsigned int *count, sample_t *to) {
	ENTER(d);
	*value_type = 1;
	if (type != 1 || d->ring == NONE)
		LEAVE(NOT_SUPPORTED);
	if (to == NULL) {
		*count = MAX_RING;
		LEAVE(OK);
	}
	unsigned int n = 0;
	for (int i = 0; i < d->ring && n < *count; i++)
		if (d->ring_whole == 1 || (unsigned long long)d->ring_at[i] > since) {
			to[n].value.ull = 0;
			to[n].value.u = (unsigned int)d->ring_value[i];
			to[n++].at = (unsigned long long)d->ring_at[i];
		}
	*count = n;
	LEAVE(n == 0 ? NOT_FOUND : OK);
}

typedef struct {
	unsigned int id, scope;
	long long at, latency;
	int type, ret;
	value_t value;
} field_t;

#ifndef WITHOUT_nvmlDeviceGetFieldValues
ret_t nvmlDeviceGetFieldValues(device_t *d, int count, field_t *fields) {
	ENTER(d);
	const struct { unsigned int id; long long value; } known[] = {
		{4, d->ecc}, {83, d->energy}, {144, d->pending}, {145, d->failure}, {230, d->recovery},
	};
	for (int i = 0; i < count; i++) {
		char call[MAX_TEXT];
		field_t *f = &fields[i];
		f->ret = NOT_SUPPORTED;
		f->value.ull = 0;
		f->type = f->id == 4 || f->id == 83 ? 3 : 1;
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (known[k].id == f->id && known[k].value != NONE) {
				f->ret = OK;
				if (f->type == 3)
					f->value.ull = (unsigned long long)known[k].value;
				else
					f->value.u = (unsigned int)known[k].value;
			}
		snprintf(call, sizeof call, "field.%u", f->id);
		for (int k = 0; k < d->rule_count; k++)
			if (strcmp(d->rules[k].call, call) == 0)
				f->ret = d->rules[k].code;
	}
	LEAVE(OK);
}
#endif

#ifndef WITHOUT_nvmlDeviceGetMigMode
ret_t nvmlDeviceGetMigMode(device_t *d, unsigned int *current, unsigned int *pending) {
	ENTER(d);
	*current = *pending = (unsigned int)d->mig;
	LEAVE(unsaid(d->mig));
}
#endif

ret_t nvmlDeviceGetMaxMigDeviceCount(device_t *d, unsigned int *count) {
	ENTER(d);
	*count = d->max_slices == NONE ? MAX_SLICES : (unsigned int)d->max_slices;
	LEAVE(unsaid(d->mig));
}

ret_t nvmlDeviceGetMigDeviceHandleByIndex(device_t *d, unsigned int index, device_t **slice) {
	ENTER(d);
	if (index >= MAX_SLICES)
		LEAVE(INVALID_ARGUMENT);
	if (!state.slices[d->index][index].used)
		LEAVE(NOT_FOUND);
	*slice = &state.slices[d->index][index];
	LEAVE(OK);
}

ret_t nvmlDeviceGetGpuInstanceId(device_t *d, unsigned int *id) {
	ENTER(d);
	*id = (unsigned int)d->gi;
	LEAVE(unsaid(d->gi));
}

ret_t nvmlDeviceGetComputeInstanceId(device_t *d, unsigned int *id) {
	ENTER(d);
	*id = (unsigned int)d->ci;
	LEAVE(unsaid(d->ci));
}

typedef struct {
	unsigned int multiprocessors, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices;
	unsigned long long memory_mb;
} attributes_t;

ret_t nvmlDeviceGetAttributes_v2(device_t *d, attributes_t *a) {
	ENTER(d);
	memset(a, 0, sizeof *a);
	a->gi_slices = (unsigned int)d->gi_slices;
	a->ci_slices = (unsigned int)d->ci_slices;
	a->memory_mb = (unsigned long long)d->attribute_mb;
	LEAVE(unsaid(d->gi_slices));
}
