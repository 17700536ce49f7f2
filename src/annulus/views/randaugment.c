/* RandAugment of one large view on a CPU: its changes in sequence, each from one copy of the view to another.

annulus.views.randaugment has the formulas. It compiles and calls this file, after a comparison. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDENTITY, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE, BRIGHTNESS, COLOR, CONTRAST, SHARPNESS, POSTERIZE,
       SOLARIZE, AUTOCONTRAST, EQUALIZE }; /* annulus.views.randaugment.CHANGES */

static inline float lower(float a, float b) { return a < b ? a : b; }
static inline float higher(float a, float b) { return a > b ? a : b; }
static inline float unit(float value) { return lower(higher(value, 0.0f), 1.0f); }
static inline float luma(float red, float green, float blue) { return 0.2989f * red + 0.587f * green + 0.114f * blue; }

/* Moves pixels by a matrix of 2 x 3, relative to the middle: nearest pixels, black beyond the border. `places` has room
   for a row. */
static void move(const float *view, float *restrict result, int height, int width, const float *matrix, int *places)
{
    long plane = (long)height * width;
    for (int row = 0; row < height; row++) {
        float y = row + 0.5f - height / 2.0f;
        for (int column = 0; column < width; column++) {
            float x = column + 0.5f - width / 2.0f;
            float from_x = rintf(matrix[0] * x + matrix[1] * y + matrix[2] + (width - 1) / 2.0f);
            float from_y = rintf(matrix[3] * x + matrix[4] * y + matrix[5] + (height - 1) / 2.0f);
            int inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height);
            places[column] = inside ? (int)from_y * width + (int)from_x : -1;
        }
        for (int channel = 0; channel < 3; channel++) {
            const float *from = view + channel * plane;
            float *to = result + channel * plane + (long)row * width;
            for (int column = 0; column < width; column++)
                to[column] = places[column] < 0 ? 0 : from[places[column]];
        }
    }
}

/* factor * view + a share of its mean grey + a share of its greyscale, within [0, 1]. */
static void blend(const float *view, float *restrict result, long plane, float factor, float mean_share,
                  float grey_share)
{
    const float *red = view, *green = red + plane, *blue = green + plane;
    double total = 0;
    for (long first = 0; mean_share != 0 && first < plane; first += 1024) { /* a float holds the sum of so many */
        long last = plane - first < 1024 ? plane : first + 1024;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long place = first; place < last; place++)
            sum += luma(red[place], green[place], blue[place]);
        total += sum;
    }
    float mean = mean_share * (float)(total / plane);
    for (long place = 0; place < plane; place++) {
        float with = mean + grey_share * luma(red[place], green[place], blue[place]);
        result[place] = unit(factor * red[place] + with);
        result[plane + place] = unit(factor * green[place] + with);
        result[2 * plane + place] = unit(factor * blue[place] + with);
    }
}

/* Blends a channel with its smoothed version, whose border is not smoothed. `sums` has room for a row. */
static void sharpen(const float *channel, float *restrict result, int height, int width, float factor,
                    float *restrict sums)
{
    for (int row = 0; row < height; row++) {
        const float *from = channel + (long)row * width;
        float *to = result + (long)row * width;
        for (int column = 0; column < width; column++)
            to[column] = unit(from[column]);
        if (row == 0 || row == height - 1)
            continue;
        for (int column = 0; column < width; column++)
            sums[column] = from[column - width] + from[column] + from[column + width];
        for (int column = 1; column < width - 1; column++) {
            float smooth = (sums[column - 1] + sums[column] + sums[column + 1] + 4 * from[column]) / 13;
            to[column] = unit(smooth + factor * (from[column] - smooth));
        }
    }
}

static void posterize(const float *view, float *restrict result, long count, float levels)
{
    for (long place = 0; place < count; place++)
        result[place] = lower(floorf(view[place] * levels), levels - 1) / levels;
}

static void solarize(const float *view, float *restrict result, long count, float threshold)
{
    for (long place = 0; place < count; place++)
        result[place] = view[place] >= threshold ? 1 - view[place] : view[place];
}

static void autocontrast(const float *channel, float *restrict result, long count)
{
    float low = channel[0], high = channel[0];
#pragma omp simd reduction(min : low) reduction(max : high)
    for (long place = 0; place < count; place++) {
        low = lower(low, channel[place]);
        high = higher(high, channel[place]);
    }
    float from = low == high ? 0 : low, width = low == high ? 1 : high - low;
    for (long place = 0; place < count; place++)
        result[place] = (channel[place] - from) / width;
}

/* A channel's level, of 256, clamped to [0, 1]. */
static inline int level(float value)
{
    int found = (int)(value * (256 - 1e-3f));
    return found < 0 ? 0 : found > 255 ? 255 : found;
}

static void equalize(const float *channel, float *restrict result, long count)
{
    long counts[256] = {0}, below = 0;
    float told[256];
    int highest = 255;
    for (long place = 0; place < count; place++)
        counts[level(channel[place])]++;
    while (!counts[highest])
        highest--;
    long step = (count - counts[highest]) / 255;
    for (int each = 0; each < 256; each++) {
        long table = step ? (below + step / 2) / step : each;
        told[each] = (table < 255 ? table : 255) / 255.0f;
        below += counts[each];
    }
    for (long place = 0; place < count; place++)
        result[place] = told[level(channel[place])];
}

static void change(const float *view, float *restrict result, int height, int width, int kind, float amount,
                   const float *matrix, void *room)
{
    long plane = (long)height * width;
    float factor = 1 + 0.9f * amount, size = fabsf(amount);
    switch (kind) {
    case BRIGHTNESS:
        blend(view, result, plane, factor, 0, 0);
        return;
    case COLOR:
        blend(view, result, plane, factor, 0, 1 - factor);
        return;
    case CONTRAST:
        blend(view, result, plane, factor, 1 - factor, 0);
        return;
    case POSTERIZE:
        posterize(view, result, 3 * plane, exp2f(8 - rintf(4 * size)));
        return;
    case SOLARIZE:
        solarize(view, result, 3 * plane, 1 - size);
        return;
    case SHARPNESS:
    case AUTOCONTRAST:
    case EQUALIZE:
        for (int channel = 0; channel < 3; channel++, view += plane, result += plane)
            if (kind == SHARPNESS)
                sharpen(view, result, height, width, factor, room);
            else if (kind == AUTOCONTRAST)
                autocontrast(view, result, plane);
            else
                equalize(view, result, plane);
        return;
    default:
        move(view, result, height, width, matrix, room);
    }
}

/* view and result: 3 planes of height x width numbers, in [0, 1]. kinds, amounts and matrices: the changes in order,
   their amounts, and 2 x 3 matrices for changes that move pixels. Returns 0 if memory is short, else 1. */
int annulus_randaugment(const float *view, int height, int width, int changes, const int *kinds, const float *amounts,
                        const float *matrices, float *result)
{
    size_t count = 3 * (size_t)height * width;
    float *other = malloc((count + width) * sizeof(float)); /* a copy, and a row for changes that need it */
    int left = 0;
    if (!other)
        return 0;
    for (int number = 0; number < changes; number++)
        left += kinds[number] != IDENTITY;
    if (!left)
        memcpy(result, view, count * sizeof(float));
    for (int number = 0; number < changes; number++) {
        if (kinds[number] == IDENTITY)
            continue;
        float *to = left-- % 2 ? result : other; /* the last one into the result */
        change(view, to, height, width, kinds[number], amounts[number], matrices + 6 * number, other + count);
        view = to;
    }
    free(other);
    return 1;
}
